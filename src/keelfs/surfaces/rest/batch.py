"""Many operations in one transaction: all of them or none."""

from __future__ import annotations

from typing import Any

from keelfs import ops
from keelfs.identity import Context
from keelfs.model import ABSENT, ANY, Attrs, Expect, Stat
from keelfs.surfaces.rest.answer import Answer, json
from keelfs.surfaces.rest.dialect import creatable, place, unreserved
from keelfs.surfaces.rest.encoding import decoded
from keelfs.surfaces.rest.more_bodies import BatchAnswer, BatchDone, BatchStep
from keelfs.surfaces.rest.reach import changing
from keelfs.surfaces.rest.request import Request


def batch(context: Context, request: Request) -> Answer:
    """Performs operations in one transaction, all or none; an error says which was refused."""
    work = [_operation(step) for step in request.body.operations]
    done = changing(context, request).batch(work, key=request.key)
    return json(BatchAnswer([_done(answer) for answer in done]))


def _done(answer: Any) -> BatchDone | None:
    if not isinstance(answer, Stat):
        return None
    return BatchDone(answer.uuid, answer.kind.value, answer.size, answer.revision)


def _operation(step: BatchStep) -> ops.Op[Any]:
    path, expect = place(step.path), _expect(step)
    match step.op:
        case "write":
            return ops.Write(creatable(path), _data(step), expect)
        case "append":
            return ops.Append(creatable(path), _data(step), expect)
        case "patch":
            return ops.Patch(unreserved(path), step.offset, _data(step), expect)
        case "mkdir":
            return ops.Mkdir(creatable(path), parents=True, exist_ok=True)
        case "remove":
            return ops.Remove(path, step.recursive, expect)
        case "trash":
            return ops.Trash(path, expect)
        case "move":
            to = creatable(place(step.to))
            return ops.Move(path, to, step.replace, parents=True, expect=expect)
        case "copy":
            to = creatable(place(step.to))
            return ops.Copy(path, to, step.replace, step.recursive, parents=True, expect=expect)
        case "set_readonly":
            return ops.SetAttrs(path, Attrs(readonly=step.readonly), expect=expect)
        case "restore":
            return ops.Restore(unreserved(path), step.revision, expect)
        case "stat":
            return ops.GetStat(path, follow=False)


def _data(step: BatchStep) -> bytes:
    return decoded(step.content, step.encoding)


def _expect(step: BatchStep) -> Expect:
    if step.expect is None:
        return ANY
    return ABSENT if step.expect == "absent" else step.expect
