"""Chat templates: what they may do, what they see, and what is said when there is none."""

from __future__ import annotations

from datetime import datetime

import pytest
from fader_backends.errors import NoTemplate, TemplateError, UnknownName
from fader_backends.template import NAMED, choose, render

NOW = datetime(2026, 3, 4, 5, 6)
CHAT = [{"role": "user", "content": "hi"}]
LONG = [
    {"role": "system", "content": "SYS"},
    {"role": "user", "content": "one"},
    {"role": "assistant", "content": "two"},
    {"role": "user", "content": "three"},
]


def test_a_template_sees_what_hub_templates_expect() -> None:
    source = (
        "{{ bos_token }}|{{ eos_token }}|{{ strftime_now('%d %b %Y') }}|{{ messages | tojson }}|{{ tools is none }}"
        "|{% generation %}g{% endgeneration %}{% for m in [1, 2] %}{% if m == 2 %}{% break %}{% endif %}{{ m }}{% endfor %}"
    )
    expected = '<s>|</s>|04 Mar 2026|[{"role": "user", "content": "hi"}]|True|g1'
    assert render(source, CHAT, NOW, "<s>", "</s>") == expected


def test_blocks_leave_no_lines_behind() -> None:
    assert render("  {% if true %}\nx\n  {% endif %}\n", CHAT, NOW) == "x\n"


def test_its_own_message_is_shown() -> None:
    with pytest.raises(TemplateError, match="Roles must alternate") as caught:
        render("{{ raise_exception('Roles must alternate') }}", CHAT, NOW)
    assert "template" in caught.value.next_step


@pytest.mark.parametrize(
    "source",
    [
        "{% if %}",
        "{{ nothing.at.all }}",
        "{{ messages.__class__.__mro__[1].__subclasses__() }}",
        "{% set _ = messages.append(1) %}",
        "{{ messages[0].update({'role': 'system'}) }}",
        "{% for i in range(1000000000) %}{% endfor %}",
        "{% include '/etc/passwd' %}",
        "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
    ],
)
def test_whatever_goes_wrong_is_one_error(source: str) -> None:
    with pytest.raises(TemplateError):
        render(source, CHAT, NOW)
    assert CHAT == [{"role": "user", "content": "hi"}]


def test_choosing() -> None:
    assert choose("own", "", "m") == "own"
    assert choose("own", "chatml", "m") == choose("", "chatml", "m") == NAMED["chatml"]
    with pytest.raises(UnknownName, match="chatml"):
        choose("own", "chatmll", "m")
    with pytest.raises(NoTemplate) as caught:
        choose("", "", "m")
    assert all(name in caught.value.detail for name in NAMED)
    assert 'template = "chatml"' in caught.value.next_step


@pytest.mark.parametrize("name", NAMED)
def test_named_templates_extend_what_they_rendered(name: str) -> None:
    whole = render(NAMED[name], LONG, NOW, "<s>", "</s>")
    assert whole.startswith(render(NAMED[name], LONG[:2], NOW, "<s>", "</s>") + "two")
    assert [whole.index(text) for text in ("SYS", "one", "two", "three")] == sorted(
        whole.index(text) for text in ("SYS", "one", "two", "three")
    )
