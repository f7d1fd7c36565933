"""Fragments: the typed instructions that an agent is given, one JSON object a line.

The schema is closed: nineteen types, no other, and no key that is not named here. Fields without
`None` are needed. A line that does not fit refuses the whole write.

Who calls: composition, which registers the validator in every tree.
"""

from __future__ import annotations

from typing import Final

from msgspec import UNSET, Struct, UnsetType

from keelfs.errors import FragmentValidationError
from keelfs.validators import Validator, jsonl

#: Where the fragments of an agent lie in its tree.
PATH: Final = "/.agent/fragments.jsonl"

Text = str
Maybe = str | UnsetType
Texts = list[str]
MaybeTexts = list[str] | UnsetType


class _Fragment(Struct, kw_only=True, tag_field="type", forbid_unknown_fields=True):
    pass


class Term(_Fragment, tag="term"):
    name: Text
    definition: Text


class Hint(_Fragment, tag="hint"):
    text: Text


class Guardrail(_Fragment, tag="guardrail"):
    rule: Text
    reason: Maybe = UNSET
    action: Maybe = UNSET


class Explain(_Fragment, tag="explain"):
    concept: Text
    explanation: Text
    therefore: Maybe = UNSET


class Example(_Fragment, tag="example"):
    question: Text
    answer: Text
    note: Maybe = UNSET


class Clarification(_Fragment, tag="clarification"):
    when: Text
    ask: Text
    reason: Text


class Workflow(_Fragment, tag="workflow"):
    task: Text
    steps: Texts
    triggers: MaybeTexts = UNSET
    notes: Maybe = UNSET


class Quirk(_Fragment, tag="quirk"):
    issue: Text
    workaround: Text


class StyleGuide(_Fragment, tag="styleGuide"):
    prefer: Text
    never: Maybe = UNSET
    always: Maybe = UNSET


class Analogy(_Fragment, tag="analogy"):
    concepts: Texts
    relationship: Text
    insight: Maybe = UNSET
    therefore: Maybe = UNSET
    pitfall: Maybe = UNSET


class Glossary(_Fragment, tag="glossary"):
    entries: dict[str, str]


class Role(_Fragment, tag="role"):
    content: Text


class Principle(_Fragment, tag="principle"):
    title: Text
    description: Text
    policies: MaybeTexts = UNSET


class Policy(_Fragment, tag="policy"):
    rule: Text
    before: Maybe = UNSET
    reason: Maybe = UNSET
    policies: MaybeTexts = UNSET


class Identity(_Fragment, tag="identity"):
    name: Maybe = UNSET
    role: Maybe = UNSET


class Persona(_Fragment, tag="persona"):
    name: Text
    role: Maybe = UNSET
    objective: Maybe = UNSET
    tone: Maybe = UNSET


class Alias(_Fragment, tag="alias"):
    term: Text
    meaning: Text


class Preference(_Fragment, tag="preference"):
    aspect: Text
    value: Text


class Correction(_Fragment, tag="correction"):
    subject: Text
    clarification: Text


Fragment = (
    Term | Hint | Guardrail | Explain | Example | Clarification | Workflow | Quirk | StyleGuide
    | Analogy | Glossary | Role | Principle | Policy | Identity | Persona | Alias | Preference
    | Correction
)  # fmt: skip

#: Judges the bytes of a file of fragments.
validate: Final[Validator] = jsonl(Fragment, failure=FragmentValidationError)
