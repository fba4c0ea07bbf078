# SPDX-License-Identifier: Apache-2.0
"""Reads ``.pt2`` files of `torch.export.save` as untrusted input: no byte of them runs as code.

`torch.export.load` unpickles sample inputs, legacy weights and custom objects, evaluates symbolic
sizes and guards, looks operators up by any dotted name of ``torch``, generates Python from names,
imports modules that a tree specification names, and loads shared libraries. So it never sees the
file itself. Here the archive is read as plain data; what a network needs is copied, value by
value, through the rules below into a new archive in memory; PyTorch loads that.

Copied: the graph of ATen operators, weights and constants as raw bytes. Left out: sample inputs,
extra files, compiled libraries, guards, traces of the source. Refused: everything else.
"""

from __future__ import annotations

import io
import json
import re
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from tilewright.host.common.errors import WorkloadError, reason_of
from tilewright.host.common.plain_values import (
    PlainValueError,
    Rule,
    always,
    each,
    mapping,
    one_of,
    optional,
    plain,
    record,
    refused,
    text,
)
from tilewright.host.common.zip_archives import open_archive
from tilewright.host.compiler.read.remedies import TRUST

MAX_ARCHIVE_BYTES: Final = 1 << 32
MAX_GRAPH_BYTES: Final = 1 << 28
MAX_MEMBERS: Final = 100_000
_MAX_DEPTH: Final = 8
"""Of graphs within graphs, and of containers within the arguments and results of a network."""

_MODEL: Final = "model"
"""`torch.export.save` gives its one program this name."""

_FOLDERS: Final = {"weights": "weight", "constants": "tensor"}
"""What holds tensors, and the beginning of their members' names."""

_RAW_PICKLE: Final = b"\x80"


def plain_archive(path: Path, named: Path) -> io.BytesIO:
    """What a network needs of a ``.pt2`` file, as an archive that `torch.export.load` takes."""
    try:
        with open_archive(path) as archive:
            return _rewritten(_Members(archive))
    except PlainValueError as error:
        raise _refusal(named, str(error)) from None
    except OSError as error:
        raise WorkloadError(
            "a model must be a readable file",
            field=str(named),
            remedy=error.strerror or str(error),
        ) from error
    except Exception as error:  # zipfile, json and PyTorch's writer raise many kinds
        if isinstance(error, zipfile.BadZipFile) and _begins(path, _RAW_PICKLE):
            raise _refusal(named, "it is a bare pickle") from None
        detail = reason_of(error, 120)
        raise WorkloadError(
            f"must be a file of torch.export.save ({detail})",
            field=str(named),
            remedy="write it with torch.export.save(torch.export.export(module, inputs), path)",
        ) from error


def _begins(path: Path, beginning: bytes) -> bool:
    with path.open("rb") as file:
        return file.read(len(beginning)) == beginning


def _refusal(path: Path, what: str) -> WorkloadError:
    return WorkloadError(
        f"must hold nothing but ATen operators and plain tensors ({what}): loading the rest could "
        "run code",
        field=str(path),
        remedy=TRUST,
    )


class _Members:
    """The members of an archive, without its root folder; none is compressed, so none can swell."""

    def __init__(self, archive: zipfile.ZipFile) -> None:
        entries = archive.infolist()
        if len(entries) > MAX_MEMBERS:
            raise PlainValueError(f"it has more than {MAX_MEMBERS} members")
        if any(e.compress_type != zipfile.ZIP_STORED for e in entries):
            raise PlainValueError("it has compressed members, which PyTorch does not write")
        if sum(e.file_size for e in entries) > MAX_ARCHIVE_BYTES:
            raise PlainValueError(f"it holds more than {MAX_ARCHIVE_BYTES} bytes")
        self._archive = archive
        self._entries = {entry.filename.partition("/")[2]: entry for entry in entries}
        if len(self._entries) != len(entries):
            raise PlainValueError("it has two members of one name")

    def __contains__(self, name: str) -> bool:
        return name in self._entries

    def names(self) -> list[str]:
        return list(self._entries)

    def read(self, name: str) -> bytes:
        entry = self._entries.get(name)
        if entry is None:
            raise ValueError(f"{name} is missing")
        return self._archive.read(entry)

    def json(self, name: str) -> Any:
        entry = self._entries.get(name)
        if entry is not None and entry.file_size > MAX_GRAPH_BYTES:
            raise PlainValueError(f"{name} has more than {MAX_GRAPH_BYTES} bytes")
        return json.loads(self.read(name))


def _rewritten(members: _Members) -> io.BytesIO:
    from torch.export.pt2_archive._package import PT2ArchiveWriter  # noqa: PLC0415  (heavy)

    _require_layout(members)
    tensors = {
        folder: _payloads(prefix)(members.json(f"data/{folder}/{_MODEL}_{folder}_config.json"))
        for folder, prefix in _FOLDERS.items()
    }
    program = _program(members.json(f"models/{_MODEL}.json"))
    output = io.BytesIO()
    with PT2ArchiveWriter(output) as writer:
        writer.write_string(f"models/{_MODEL}.json", json.dumps(program))
        writer.write_bytes(f"data/sample_inputs/{_MODEL}.pt", b"")
        for folder, config in tensors.items():
            writer.write_string(f"data/{folder}/{_MODEL}_{folder}_config.json", json.dumps(config))
            for name in sorted({payload["path_name"] for payload in config["config"].values()}):
                writer.write_bytes(f"data/{folder}/{name}", members.read(f"data/{folder}/{name}"))
    output.seek(0)
    return output


def _require_layout(members: _Members) -> None:
    names = members.names()
    if "archive_format" not in members:
        if any(name in ("constants.pkl", "data.pkl") for name in names):
            raise PlainValueError("it is a file of torch.save or torch.jit.save, which is a pickle")
        raise PlainValueError("it is no archive of today's torch.export.save")
    if members.read("archive_format") != b"pt2":
        raise PlainValueError("its archive_format is not pt2")
    if members.read("archive_version") != b"0":
        raise PlainValueError("its archive_version is not 0")
    if "byteorder" in members and members.read("byteorder") != b"little":
        raise PlainValueError("its tensors are big-endian")
    models = [name for name in names if name.startswith("models/")]
    if models != [f"models/{_MODEL}.json"]:
        raise PlainValueError("it must have one program, of the name 'model'")
    for folder in _FOLDERS:
        if f"data/{folder}/{_MODEL}.pt" in members:
            raise PlainValueError(f"its {folder} are a pickle, as older PyTorch wrote them")


# -- rules -----------------------------------------------------------------------------------------


_integer, _boolean = plain(int), plain(bool)
_real = plain(float, int)
_special = text(r"-?Infinity|NaN")


def _number(value: Any) -> Any:
    return _special(value) if isinstance(value, str) else _real(value)


_name = text(r"[A-Za-z_]\w{0,511}")
_optional_name = text(r"(?:[A-Za-z_]\w{0,511})?")
_path_name = text(r"[\w.]{0,1024}")  # of a parameter: 0.conv.weight
_word = text(r"[\w .,>-]{0,256}")  # a mode, or the equation of einsum
_version = text(r"[\w.+<=-]{1,64}")

_SYMBOL: Final = r"[suzif]{1,2}\d{1,6}"
_symbol = text(_SYMBOL)
_FUNCTIONS: Final = (
    "Integer|Add|Mul|Max|Min|FloorDiv|Mod|PythonMod|CleanDiv|CeilDiv|IntTrueDiv|CeilToInt"
)
# PyTorch evaluates it as Python, in the form "Mul(Integer(2), Symbol('s7', integer=True))": known
# functions of symbols and small numbers. No power, which can take all time, and no other name.
_expression = text(
    rf"(?=.{{1,512}}$)(?:Symbol\('{_SYMBOL}'(?:, (?:positive|nonnegative|integer)=True)*\)"
    rf"|(?:{_FUNCTIONS})\(|-?\d{{1,12}}(?!\w)|, |\))+"
)
_hint = optional(one_of(as_int=_integer, as_bool=_boolean, as_float=_number))
_symbolic = record(expr_str=_expression, hint=_hint)
_size = one_of(as_expr=_symbolic, as_int=_integer)

_OPERATOR: Final = re.compile(
    r"torch\.ops\.aten\.(?P<aten>[A-Za-z_]\w{0,127})\.[A-Za-z_]\w{0,63}"
    r"|torch\.ops\.higher_order\.wrap_with_set_grad_enabled"
    r"|_operator\.(?:add|sub|mul|floordiv|truediv|mod|neg|eq|ne|lt|le|gt|ge|and_|or_|getitem)"
    r"|math\.(?:floor|ceil|trunc|sqrt)"
    r"|torch\.sym_(?:max|min|float|int|ite|not|sum)",
    re.ASCII,
)
_FORBIDDEN_ATEN: Final = ("from_file", "save", "set_", "pin_memory", "record_stream")
"""Beginnings of operators that reach beyond tensors: files, foreign storage, devices."""


def _target(value: Any) -> str:
    found = _OPERATOR.fullmatch(value) if isinstance(value, str) else None
    aten = (found["aten"] or "").lstrip("_") if found else ""
    if found is None or aten.startswith(_FORBIDDEN_ATEN):
        raise PlainValueError(f"operator {str(value)[:80]!r}")
    return str(value)


_device = record(type=text(r"cpu|cuda|meta|mps|xpu"), index=optional(_integer))
_tensor = record(name=_name)
_maybe_tensor = one_of(as_tensor=_tensor, as_none=_boolean)


def _symbol_or(name: str, check: Rule) -> Rule:
    return one_of(as_name=_name, **{name: check})


def _deeper_graph(depth: int) -> Rule:
    """A graph's rule, made only when there is a graph: it contains itself."""

    def check(value: Any) -> Any:
        return _graph(depth)(value)

    return check


def _argument(depth: int) -> Rule:
    cases: dict[str, Rule] = {
        "as_none": _boolean,
        "as_tensor": _tensor,
        "as_tensors": each(_tensor),
        "as_optional_tensor": _maybe_tensor,
        "as_optional_tensors": each(_maybe_tensor),
        "as_nested_tensors": each(each(_tensor)),
        "as_int": _integer,
        "as_ints": each(_integer),
        "as_int_lists": each(each(_integer)),
        "as_float": _number,
        "as_floats": each(_number),
        "as_float_lists": each(each(_number)),
        "as_complex": record(real=_number, imag=_number),
        "as_string": _word,
        "as_strings": each(_word),
        "as_bool": _boolean,
        "as_bools": each(_boolean),
        "as_sym_int": _symbol_or("as_int", _integer),
        "as_sym_ints": each(_symbol_or("as_int", _integer)),
        "as_sym_float": _symbol_or("as_float", _number),
        "as_sym_floats": each(_symbol_or("as_float", _number)),
        "as_sym_bool": _symbol_or("as_bool", _boolean),
        "as_sym_bools": each(_symbol_or("as_bool", _boolean)),
        "as_scalar_type": _integer,
        "as_memory_format": _integer,
        "as_layout": _integer,
        "as_device": _device,
        "as_graph": record(name=_name, graph=_deeper_graph(depth + 1)),
        "as_custom_obj": refused("a custom object"),
        "as_operator": refused("an operator as an argument"),
        "as_string_to_argument": refused("a dictionary as an argument"),
    }
    return one_of(**cases)


_tensor_meta = record(
    dtype=_integer,
    sizes=each(_size),
    requires_grad=_boolean,
    device=_device,
    strides=each(_size),
    storage_offset=_size,
    layout=_integer,
)


def _graph(depth: int) -> Rule:
    if depth > _MAX_DEPTH:
        raise PlainValueError(f"graphs more than {_MAX_DEPTH} deep")
    argument = _argument(depth)
    node = record(
        target=_target,
        inputs=each(record(name=_optional_name, arg=argument, kind=optional(_integer))),
        outputs=each(argument),
        metadata=always({}),
        is_hop_single_tensor_return=optional(_boolean),
        name=optional(_name),
    )
    return record(
        inputs=each(argument),
        outputs=each(argument),
        nodes=each(node),
        tensor_values=mapping(_name, _tensor_meta),
        sym_int_values=mapping(_name, _size),
        sym_bool_values=mapping(_name, one_of(as_expr=_symbolic, as_bool=_boolean)),
        sym_float_values=mapping(_name, one_of(as_expr=_symbolic, as_float=_number)),
        is_single_tensor_return=_boolean,
        custom_obj_values=mapping(refused("a custom object"), refused("a custom object")),
    )


_constant = one_of(
    as_none=_boolean, as_int=_integer, as_float=_number, as_string=_word, as_bool=_boolean
)
_input_spec = one_of(
    user_input=record(arg=_argument(0)),
    parameter=record(arg=_tensor, parameter_name=_path_name),
    buffer=record(arg=_tensor, buffer_name=_path_name, persistent=_boolean),
    tensor_constant=record(arg=_tensor, tensor_constant_name=_path_name),
    constant_input=record(name=_name, value=_constant),
    custom_obj=refused("a custom object"),
    token=refused("a token of effects"),
)
_output_spec = one_of(
    user_output=record(arg=_argument(0)),
    loss_output=record(arg=_tensor),
    buffer_mutation=record(arg=_tensor, buffer_name=_path_name),
    parameter_mutation=record(arg=_tensor, parameter_name=_path_name),
    gradient_to_parameter=record(arg=_tensor, parameter_name=_path_name),
    gradient_to_user_input=record(arg=_tensor, user_input_name=_name),
    user_input_mutation=record(arg=_tensor, user_input_name=_name),
    token=refused("a token of effects"),
)


def _key(value: Any) -> Any:
    return _integer(value) if isinstance(value, int) else _word(value)


def _tree(value: Any, depth: int = 0) -> dict[str, Any]:
    """A specification of nested containers: PyTorch imports what other kinds of it name."""
    if depth > _MAX_DEPTH:
        raise PlainValueError(f"containers more than {_MAX_DEPTH} deep")
    fields = record(
        type=optional(text(r"builtins\.(?:tuple|list|dict)|collections\.OrderedDict")),
        context=optional(plain(str)),
        children_spec=each(lambda child: _tree(child, depth + 1)),
    )
    tree: dict[str, Any] = fields(value)
    if tree["context"] is not None:
        keys = optional(each(_key))(json.loads(tree["context"]))
        tree["context"] = json.dumps(keys)
    return tree


def _tree_text(value: Any) -> str:
    version, tree = plain(list)(json.loads(plain(str)(value)))
    return json.dumps([_integer(version), _tree(tree)])


_signature_of_call = record(
    inputs=each(_argument(0)),
    outputs=each(_argument(0)),
    in_spec=_tree_text,
    out_spec=_tree_text,
    forward_arg_names=optional(each(_name)),
)


def _root_call(entries: Any) -> list[Any]:
    """Of the whole network alone; those of its modules serve to take it apart again."""
    entry = record(fqn=_path_name, signature=optional(_signature_of_call))
    return [entry(one) for one in plain(list)(entries) if isinstance(one, dict) and not one["fqn"]]


_program: Final = record(
    graph_module=record(
        graph=_graph(0),
        signature=record(input_specs=each(_input_spec), output_specs=each(_output_spec)),
        module_call_graph=_root_call,
        metadata=always({}),
        treespec_namedtuple_fields=always({}),
    ),
    opset_version=mapping(_name, _integer),
    range_constraints=mapping(
        _symbol, record(min_val=optional(_integer), max_val=optional(_integer))
    ),
    schema_version=record(major=_integer, minor=_integer),
    verifiers=each(_name),
    torch_version=_version,
    guards_code=always([]),
)


def _payloads(prefix: str) -> Rule:
    meta = record(
        path_name=text(rf"{prefix}_\d{{1,9}}"),
        is_param=_boolean,
        use_pickle=_never_pickled,
        tensor_meta=_tensor_meta_of_payload,
    )
    return record(config=mapping(_path_name, meta))


def _never_pickled(value: Any) -> bool:
    if value is not False:
        raise PlainValueError("a tensor that is a pickle")
    return False


def _tensor_meta_of_payload(value: Any) -> Mapping[str, Any]:
    if value is None:
        raise PlainValueError("a custom object among the tensors")
    meta: Mapping[str, Any] = _tensor_meta(value)
    if meta["device"]["type"] != "cpu":
        return {**meta, "device": {"type": "cpu", "index": None}}
    return meta
