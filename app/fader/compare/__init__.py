"""One prompt under several settings, side by side. Knows no screen.

spec.py      what a column changes, sweeps, and the switchboard that comes of it
column.py    one column while it runs
sides.py     all columns: who runs when, together or one at a time
figures.py   the numbers under a column
differ.py    where two replies part, and why; word diffs
values.py    a comparison as it is stored, read and run again
place.py     where in a conversation a comparison stands, and keeping one of its replies
tally.py     which settings won blind choices
export.py    Markdown and JSON; page.py: one HTML file
"""
