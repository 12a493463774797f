"""Owns grammars of the llama.cpp backend: GBNF and JSON schemas as constraints on the next token.

Knows a vocabulary, no sampling: who asks decides what to do with what is allowed.
"""

from __future__ import annotations

import ctypes
import importlib.util
import json
import re
import weakref
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from fader_backends.base import Scores
from fader_backends.errors import BadValue
from fader_backends.gbnf import ROOT, Grammar, parse
from fader_backends.llamacpp.library import LOG, bindings, catch_log, reason
from fader_backends.llamacpp.vocabulary import Vocabulary

CANDIDATE = np.dtype([("id", np.int32), ("logit", np.float32), ("p", np.float32)])
"""`llama_token_data`."""
_CHAR_RULE = 'char ::= [^"\\\\] |'
_STRICT_CHAR_RULE = 'char ::= [^"\\\\\\x7F\\x00-\\x1F] |'
"""The library's rule lets raw line breaks into JSON strings, where they are not allowed (RFC 8259, section 7)."""


class LlamaConstraint:
    """`constraint.Constraint` over the library's grammar sampler; `constraint` says what each method promises."""

    def __init__(self, vocabulary: Vocabulary, grammar: Grammar) -> None:
        """Raises BadValue for what the library refuses although it parses."""
        library = self._library = bindings()
        for token in grammar.tokens:
            if not token.text.startswith("<[") and len(vocabulary.parse(token.text)) != 1:
                raise BadValue(f"The grammar names {token.text} at {token.place}, which is no token of this model.")
        catch_log(library)
        with LOG.listen() as lines:
            self._pointer: Any = library.llama_sampler_init_grammar(
                vocabulary.pointer, grammar.text.encode(), ROOT.encode()
            )
        if not self._pointer:
            raise BadValue("llama.cpp refuses this grammar.", reason(lines), "Simplify it, or clear sampler.grammar.")
        self._free = weakref.finalize(self, library.llama_sampler_free, self._pointer)
        self._free.atexit = False
        self._candidates = np.zeros(vocabulary.size, CANDIDATE)
        self._ids = np.arange(vocabulary.size, dtype=np.int32)
        self._silent = silent(vocabulary) if not grammar.tokens else frozenset()
        self._silent_ids = np.fromiter(self._silent, np.intp, len(self._silent))
        self._array = library.llama_token_data_array()
        self._array.data = ctypes.cast(self._candidates.ctypes.data, library.llama_token_data_p)

    def _apply(self, count: int) -> None:
        self._array.size, self._array.selected, self._array.sorted = count, -1, False
        self._library.llama_sampler_apply(self._pointer, ctypes.byref(self._array))

    def allows(self, token: int) -> bool:
        """Whether `token` may come next."""
        if token in self._silent:
            return False
        self._candidates[0] = (token, 0.0, 0.0)
        self._apply(1)
        return bool(self._candidates["logit"][0] == 0.0)

    def mask(self, scores: Scores) -> Scores:
        """Return scores with -inf where a token may not come next."""
        self._candidates["id"] = self._ids
        self._candidates["logit"] = scores
        self._apply(len(scores))
        masked = self._candidates["logit"].copy()
        masked[self._silent_ids] = -np.inf
        return masked

    def accept(self, token: int) -> None:
        """Go on after `token`. Raises ValueError when it is not allowed: the library would end the process."""
        if not self.allows(token):
            raise ValueError(f"token {token} is not allowed here")
        self._library.llama_sampler_accept(self._pointer, token)

    def close(self) -> None:
        """Free it."""
        self._free()


def constraint(vocabulary: Vocabulary, grammar: str, json_schema: str) -> LlamaConstraint:
    """Return a constraint at its beginning. Raises BadValue."""
    if grammar and json_schema:
        raise BadValue("A grammar and a JSON schema are set.", "A reply can follow one of them.", "Clear one.")
    return LlamaConstraint(vocabulary, compiled(grammar, json_schema))


@lru_cache(maxsize=8)
def compiled(grammar: str, json_schema: str) -> Grammar:
    """Return the grammar that is meant, checked. Raises BadValue."""
    return parse(grammar or grammar_of(json_schema))


def grammar_of(schema: str) -> str:
    """Return GBNF for a JSON schema, by llama-cpp-python's converter. Raises BadValue for what it cannot express."""
    try:
        text: str = _converter().json_schema_to_gbnf(schema)
    except Exception as error:  # the converter asserts, and raises KeyError, ValueError, plain Exception …
        why = " ".join(str(error).split())[:300] or type(error).__name__
        raise BadValue(
            "The JSON schema cannot be used.", f"{why}.", "Simplify it, or clear sampler.json_schema."
        ) from error
    return text.replace(_CHAR_RULE, _STRICT_CHAR_RULE)


@lru_cache(maxsize=1)
def _converter() -> ModuleType:
    """Load the converter's file alone, a copy of our own: its package would import what we never call.

    It leaves backslashes in JSON texts of the schema (in an `enum`, say) as they are, where GBNF reads them as its own;
    in this copy they are escaped.
    """
    path = Path(bindings().__file__).with_name("llama_grammar.py")
    spec = importlib.util.spec_from_file_location("fader_llama_grammar", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.SchemaConverter._format_literal = lambda _, text: literal(json.dumps(json.loads(text), ensure_ascii=False))
    return module


def literal(text: str) -> str:
    """Return a text of one line as a literal of GBNF."""
    return '"' + re.sub(r'["\\]', lambda found: "\\" + found[0], text) + '"'


def silent(vocabulary: Vocabulary) -> frozenset[int]:
    """Return control tokens that show no text: the library would let `<|im_start|>` stand for these twelve letters."""
    tokens = vocabulary.control.values()
    return frozenset(token for token in tokens if token not in vocabulary.end_tokens and not vocabulary.piece(token))
