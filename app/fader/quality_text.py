"""The fixed text that KV cache types are compared on: prose, code, numbers and other scripts, about 400 tokens.

Knows nothing of how it is used. It must stay as it is, or figures from before can no longer be compared.
"""

TEXT = """\
The harbour master kept two books. In the first he wrote what the ships declared: grain, timber, salted fish, and now and
then a crate of clocks from the south. In the second he wrote what he had seen with his own eyes, and the two seldom agreed.
"A ledger," he told the new clerk, "is a promise, and a promise is only as heavy as the hand that signs it."

def median(values: list[float]) -> float:
    ordered = sorted(values)
    middle = len(ordered) // 2
    if len(ordered) % 2:
        return ordered[middle]
    return (ordered[middle - 1] + ordered[middle]) / 2

ship      arrived     tons   declared   seen
Aurora    1887-03-02   412        380    391
Borealis  1887-03-05   275        275    268
Cormorant 1887-03-11   608        590    613

By the end of March the difference came to 27 tons, or 2.1 percent of 1,295. He did not report it. In April he counted the
gulls instead, because nobody had asked him to: 14 on Monday, 9 on Tuesday, 31 on the day the herring boats came home.
If 31 gulls eat 0.4 kg each, that makes 12.4 kg of herring, which no book in the whole harbour mentioned either.

{"port": "Lindesnes", "books": [{"id": 1, "kind": "declared"}, {"id": 2, "kind": "seen"}], "open": true}

Le capitaine demanda: « Pourquoi deux livres ? » Der Hafenmeister lächelte nur. The clerk learned to write small, to wait
for the tide, and never to ask a question on a Friday. Years later, when both books lay open on the same table, it turned out
that the second one had
"""
