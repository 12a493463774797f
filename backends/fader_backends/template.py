"""Owns chat templates: the sandbox they run in, and a handful of named ones for models that carry none.

Knows no tokens and no models; a template comes from a file that nobody vouches for, so it gets no attributes to reach
Python through, and whatever it raises becomes one error.
"""

from __future__ import annotations

import contextlib
import functools
import json
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeAlias

from fader_backends.errors import NoTemplate, TemplateError, UnknownName

if TYPE_CHECKING:
    from jinja2 import Template

Chat: TypeAlias = Sequence[dict[str, str]]
"""Messages as templates see them: `role` and `content`."""

Renderer: TypeAlias = Callable[[Chat], str]

NAMED: dict[str, str] = {
    "chatml": (
        "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{% endfor %}"
        "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
    ),
    "llama-2": (
        "{% set ns = namespace(system='') %}{% for m in messages %}"
        "{% if m.role == 'system' %}{% set ns.system = '<<SYS>>\n' + m.content + '\n<</SYS>>\n\n' %}"
        "{% elif m.role == 'user' %}{{ bos_token + '[INST] ' + ns.system + m.content + ' [/INST]' }}"
        "{% set ns.system = '' %}"
        "{% else %}{{ m.content + ' ' + eos_token }}{% endif %}{% endfor %}"
    ),
    "llama-3": (
        "{{ bos_token }}{% for m in messages %}"
        "{{ '<|start_header_id|>' + m.role + '<|end_header_id|>\n\n' + m.content + '<|eot_id|>' }}{% endfor %}"
        "{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}"
    ),
    "mistral": (
        "{{ bos_token }}{% set ns = namespace(system='') %}{% for m in messages %}"
        "{% if m.role == 'system' %}{% set ns.system = m.content + '\n\n' %}"
        "{% elif m.role == 'user' %}{{ '[INST] ' + ns.system + m.content + ' [/INST]' }}{% set ns.system = '' %}"
        "{% else %}{{ m.content + eos_token }}{% endif %}{% endfor %}"
    ),
    "gemma": (
        "{{ bos_token }}{% set ns = namespace(system='') %}{% for m in messages %}"
        "{% if m.role == 'system' %}{% set ns.system = m.content + '\n\n' %}{% else %}"
        "{{ '<start_of_turn>' + ('model' if m.role == 'assistant' else 'user') + '\n' + ns.system + m.content"
        " + '<end_of_turn>\n' }}{% set ns.system = '' %}{% endif %}{% endfor %}"
        "{% if add_generation_prompt %}{{ '<start_of_turn>model\n' }}{% endif %}"
    ),
    "phi-3": (
        "{% for m in messages %}{{ '<|' + m.role + '|>\n' + m.content + '<|end|>\n' }}{% endfor %}"
        "{% if add_generation_prompt %}{{ '<|assistant|>\n' }}{% endif %}"
    ),
    "plain": (
        "{{ bos_token }}{% for m in messages %}"
        "{{ {'system': '', 'user': 'User: ', 'assistant': 'Assistant:'}[m.role] + m.content + '\n\n' }}"
        "{% endfor %}{% if add_generation_prompt %}{{ 'Assistant:' }}{% endif %}"
    ),
}
"""Templates by name, for models whose file carries none. `plain` suits models never trained to chat."""


def choose(own: str, named: str, model: str) -> str:
    """Return the template to use: the named one, else the model's own.

    Raises UnknownName, or NoTemplate when there is neither: a guessed format would spoil replies without a sign.
    """
    if named:
        if named not in NAMED:
            raise UnknownName("template", named, NAMED)
        return NAMED[named]
    if not own:
        raise NoTemplate(
            f"{model} carries no chat template.",
            f"There are templates by name: {', '.join(NAMED)}.",
            'Choose one, for example template = "chatml" in the profile.',
        )
    return own


def prepare(template: str) -> None:
    """Compile a template while a model loads, so that the first turn need not; `render` says what is wrong with it."""
    with contextlib.suppress(Exception):
        _compiled(template)


def render(
    template: str, messages: Chat, now: datetime, bos: str = "", eos: str = "", add_generation_prompt: bool = True
) -> str:
    """Return the conversation as the model reads it, ending where its reply begins.

    Raises TemplateError with the template's own message when it refuses, is no template, or runs into an error.
    """
    try:
        return _compiled(template).render(
            messages=[dict(message) for message in messages],
            add_generation_prompt=add_generation_prompt,
            bos_token=bos,
            eos_token=eos,
            strftime_now=now.strftime,
            raise_exception=_refuse,
            tools=None,
            documents=None,
        )
    except Exception as error:  # whatever a stranger's template does, it must not end the app
        raise _as_template_error(error) from error


class _RefusalError(Exception):
    """What `raise_exception` in a template raises."""


def _refuse(message: object = "") -> None:
    raise _RefusalError(str(message))


def _as_template_error(error: Exception) -> TemplateError:
    if isinstance(error, _RefusalError):
        return TemplateError(
            "The model's chat template refuses this conversation.",
            str(error),
            "Change the messages (a system prompt is the usual reason), or name another template.",
        )
    line = getattr(error, "lineno", None)
    where = f" (line {line})" if line else ""
    return TemplateError(
        "The model's chat template failed.",
        f"{type(error).__name__}: {error}{where}",
        'Name another template, for example template = "chatml" in the profile.',
    )


@functools.lru_cache(maxsize=16)
def _compiled(source: str) -> Template:
    compiled: Template = _environment().from_string(source)
    return compiled


@functools.cache
def _environment() -> Any:  # jinja2 takes 60 ms to import; `fader --help` must not pay
    from jinja2 import nodes
    from jinja2.ext import Extension
    from jinja2.parser import Parser
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    class Generation(Extension):
        """Lets `{% generation %}…{% endgeneration %}` pass: it marks what a reply is, for training."""

        tags = {"generation"}  # noqa: RUF012 - jinja2's own form

        def parse(self, parser: Parser) -> list[nodes.Node]:
            next(parser.stream)
            return parser.parse_statements(("name:endgeneration",), drop_needle=True)

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols", Generation]
    )
    environment.filters["tojson"] = _tojson
    return environment


def _tojson(
    value: object,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)
