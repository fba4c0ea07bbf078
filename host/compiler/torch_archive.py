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
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from tilewright.host.errors import WorkloadError

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

Check = Callable[[Any], Any]
"""Takes a value of the file and returns the one to copy; raises `_UnplainError`."""


class _UnplainError(ValueError):
    """A value that is not plain data of a network."""


def plain_archive(path: Path, named: Path) -> io.BytesIO:
    """What a network needs of a ``.pt2`` file, as an archive that `torch.export.load` takes.

    Args:
        path: of the file.
        named: what messages call it.

    Raises:
        WorkloadError: the file is damaged, has another layout, or holds what could run code.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            return _rewritten(_Members(archive))
    except _UnplainError as error:
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
        detail = " ".join(str(error).split())[:120] or type(error).__name__
        raise WorkloadError(
            f"must be a file of torch.export.save ({detail})", field=str(named)
        ) from error


def _begins(path: Path, beginning: bytes) -> bool:
    with path.open("rb") as file:
        return file.read(len(beginning)) == beginning


def _refusal(path: Path, what: str) -> WorkloadError:
    return WorkloadError(
        f"must hold nothing but ATen operators and plain tensors ({what}): loading the rest could "
        "run code",
        field=str(path),
        remedy="write it with torch.export.save of PyTorch 2.9 or newer, or give --trust-model "
        "(ImportOptions.trust_model) if you trust whoever made it",
    )


class _Members:
    """The members of an archive, without its root folder; none is compressed, so none can swell."""

    def __init__(self, archive: zipfile.ZipFile) -> None:
        entries = archive.infolist()
        if len(entries) > MAX_MEMBERS:
            raise _UnplainError(f"it has more than {MAX_MEMBERS} members")
        if any(e.compress_type != zipfile.ZIP_STORED for e in entries):
            raise _UnplainError("it has compressed members, which PyTorch does not write")
        if sum(e.file_size for e in entries) > MAX_ARCHIVE_BYTES:
            raise _UnplainError(f"it holds more than {MAX_ARCHIVE_BYTES} bytes")
        self._archive = archive
        self._entries = {entry.filename.partition("/")[2]: entry for entry in entries}
        if len(self._entries) != len(entries):
            raise _UnplainError("it has two members of one name")

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
            raise _UnplainError(f"{name} has more than {MAX_GRAPH_BYTES} bytes")
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
            raise _UnplainError("it is a file of torch.save or torch.jit.save, which is a pickle")
        raise _UnplainError("it is no archive of today's torch.export.save")
    if members.read("archive_format") != b"pt2":
        raise _UnplainError("its archive_format is not pt2")
    if members.read("archive_version") != b"0":
        raise _UnplainError("its archive_version is not 0")
    if "byteorder" in members and members.read("byteorder") != b"little":
        raise _UnplainError("its tensors are big-endian")
    models = [name for name in names if name.startswith("models/")]
    if models != [f"models/{_MODEL}.json"]:
        raise _UnplainError("it must have one program, of the name 'model'")
    for folder in _FOLDERS:
        if f"data/{folder}/{_MODEL}.pt" in members:
            raise _UnplainError(f"its {folder} are a pickle, as older PyTorch wrote them")


# -- rules -----------------------------------------------------------------------------------------


def _text(pattern: str) -> Check:
    compiled = re.compile(pattern, re.ASCII)

    def check(value: Any) -> str:
        if not isinstance(value, str) or not compiled.fullmatch(value):
            raise _UnplainError(f"text {str(value)[:60]!r} where a plain name is expected")
        return value

    return check


def _plain(*kinds: type) -> Check:
    def check(value: Any) -> Any:
        if type(value) not in kinds:
            raise _UnplainError(f"{str(value)[:60]!r} where {kinds[0].__name__} is expected")
        return value

    return check


def _always(result: Any) -> Check:
    return lambda _: result


def _optional(check: Check) -> Check:
    return lambda value: None if value is None else check(value)


def _each(check: Check) -> Check:
    return lambda values: [check(value) for value in _plain(list)(values)]


def _mapping(key: Check, value: Check) -> Check:
    return lambda values: {key(k): value(v) for k, v in _plain(dict)(values).items()}


def _record(**fields: Check) -> Check:
    """Known fields, each optional (PyTorch misses what it needs); unknown ones are refused."""

    def check(values: Any) -> dict[str, Any]:
        unknown = set(_plain(dict)(values)) - set(fields)
        if unknown:
            raise _UnplainError(f"unknown field {min(unknown)[:60]!r}")
        return {name: fields[name](value) for name, value in values.items()}

    return check


def _one_of(**cases: Check) -> Check:
    """A union: one known case, named."""
    record = _record(**cases)

    def check(values: Any) -> dict[str, Any]:
        if len(_plain(dict)(values)) != 1:
            raise _UnplainError("a union of several values")
        found: dict[str, Any] = record(values)
        return found

    return check


def _refused(what: str) -> Check:
    def check(_: Any) -> None:
        raise _UnplainError(what)

    return check


_integer, _boolean = _plain(int), _plain(bool)
_real = _plain(float, int)
_special = _text(r"-?Infinity|NaN")
_number: Final[Check] = lambda v: _special(v) if isinstance(v, str) else _real(v)  # noqa: E731
_name = _text(r"[A-Za-z_]\w{0,511}")
_optional_name = _text(r"(?:[A-Za-z_]\w{0,511})?")
_path_name = _text(r"[\w.]{0,1024}")  # of a parameter: 0.conv.weight
_word = _text(r"[\w .,>-]{0,256}")  # a mode, or the equation of einsum
_version = _text(r"[\w.+<=-]{1,64}")

_SYMBOL: Final = r"[suzif]{1,2}\d{1,6}"
_symbol = _text(_SYMBOL)
_FUNCTIONS: Final = (
    "Integer|Add|Mul|Max|Min|FloorDiv|Mod|PythonMod|CleanDiv|CeilDiv|IntTrueDiv|CeilToInt"
)
# PyTorch evaluates it as Python, in the form "Mul(Integer(2), Symbol('s7', integer=True))": known
# functions of symbols and small numbers. No power, which can take all time, and no other name.
_expression = _text(
    rf"(?=.{{1,512}}$)(?:Symbol\('{_SYMBOL}'(?:, (?:positive|nonnegative|integer)=True)*\)"
    rf"|(?:{_FUNCTIONS})\(|-?\d{{1,12}}(?!\w)|, |\))+"
)
_hint = _optional(_one_of(as_int=_integer, as_bool=_boolean, as_float=_number))
_symbolic = _record(expr_str=_expression, hint=_hint)
_size = _one_of(as_expr=_symbolic, as_int=_integer)

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
        raise _UnplainError(f"operator {str(value)[:80]!r}")
    return str(value)


_device = _record(type=_text(r"cpu|cuda|meta|mps|xpu"), index=_optional(_integer))
_tensor = _record(name=_name)
_maybe_tensor = _one_of(as_tensor=_tensor, as_none=_boolean)


def _symbol_or(name: str, check: Check) -> Check:
    return _one_of(as_name=_name, **{name: check})


def _deeper_graph(depth: int) -> Check:
    """A graph's rule, made only when there is a graph: it contains itself."""

    def check(value: Any) -> Any:
        return _graph(depth)(value)

    return check


def _argument(depth: int) -> Check:
    cases: dict[str, Check] = {
        "as_none": _boolean,
        "as_tensor": _tensor,
        "as_tensors": _each(_tensor),
        "as_optional_tensor": _maybe_tensor,
        "as_optional_tensors": _each(_maybe_tensor),
        "as_nested_tensors": _each(_each(_tensor)),
        "as_int": _integer,
        "as_ints": _each(_integer),
        "as_int_lists": _each(_each(_integer)),
        "as_float": _number,
        "as_floats": _each(_number),
        "as_float_lists": _each(_each(_number)),
        "as_complex": _record(real=_number, imag=_number),
        "as_string": _word,
        "as_strings": _each(_word),
        "as_bool": _boolean,
        "as_bools": _each(_boolean),
        "as_sym_int": _symbol_or("as_int", _integer),
        "as_sym_ints": _each(_symbol_or("as_int", _integer)),
        "as_sym_float": _symbol_or("as_float", _number),
        "as_sym_floats": _each(_symbol_or("as_float", _number)),
        "as_sym_bool": _symbol_or("as_bool", _boolean),
        "as_sym_bools": _each(_symbol_or("as_bool", _boolean)),
        "as_scalar_type": _integer,
        "as_memory_format": _integer,
        "as_layout": _integer,
        "as_device": _device,
        "as_graph": _record(name=_name, graph=_deeper_graph(depth + 1)),
        "as_custom_obj": _refused("a custom object"),
        "as_operator": _refused("an operator as an argument"),
        "as_string_to_argument": _refused("a dictionary as an argument"),
    }
    return _one_of(**cases)


_tensor_meta = _record(
    dtype=_integer,
    sizes=_each(_size),
    requires_grad=_boolean,
    device=_device,
    strides=_each(_size),
    storage_offset=_size,
    layout=_integer,
)


def _graph(depth: int) -> Check:
    if depth > _MAX_DEPTH:
        raise _UnplainError(f"graphs more than {_MAX_DEPTH} deep")
    argument = _argument(depth)
    node = _record(
        target=_target,
        inputs=_each(_record(name=_optional_name, arg=argument, kind=_optional(_integer))),
        outputs=_each(argument),
        metadata=_always({}),
        is_hop_single_tensor_return=_optional(_boolean),
        name=_optional(_name),
    )
    return _record(
        inputs=_each(argument),
        outputs=_each(argument),
        nodes=_each(node),
        tensor_values=_mapping(_name, _tensor_meta),
        sym_int_values=_mapping(_name, _size),
        sym_bool_values=_mapping(_name, _one_of(as_expr=_symbolic, as_bool=_boolean)),
        sym_float_values=_mapping(_name, _one_of(as_expr=_symbolic, as_float=_number)),
        is_single_tensor_return=_boolean,
        custom_obj_values=_mapping(_refused("a custom object"), _refused("a custom object")),
    )


_constant = _one_of(
    as_none=_boolean, as_int=_integer, as_float=_number, as_string=_word, as_bool=_boolean
)
_input_spec = _one_of(
    user_input=_record(arg=_argument(0)),
    parameter=_record(arg=_tensor, parameter_name=_path_name),
    buffer=_record(arg=_tensor, buffer_name=_path_name, persistent=_boolean),
    tensor_constant=_record(arg=_tensor, tensor_constant_name=_path_name),
    constant_input=_record(name=_name, value=_constant),
    custom_obj=_refused("a custom object"),
    token=_refused("a token of effects"),
)
_output_spec = _one_of(
    user_output=_record(arg=_argument(0)),
    loss_output=_record(arg=_tensor),
    buffer_mutation=_record(arg=_tensor, buffer_name=_path_name),
    parameter_mutation=_record(arg=_tensor, parameter_name=_path_name),
    gradient_to_parameter=_record(arg=_tensor, parameter_name=_path_name),
    gradient_to_user_input=_record(arg=_tensor, user_input_name=_name),
    user_input_mutation=_record(arg=_tensor, user_input_name=_name),
    token=_refused("a token of effects"),
)
_key: Final[Check] = lambda v: _integer(v) if isinstance(v, int) else _word(v)  # noqa: E731


def _tree(value: Any, depth: int = 0) -> dict[str, Any]:
    """A specification of nested containers: PyTorch imports what other kinds of it name."""
    if depth > _MAX_DEPTH:
        raise _UnplainError(f"containers more than {_MAX_DEPTH} deep")
    fields = _record(
        type=_optional(_text(r"builtins\.(?:tuple|list|dict)|collections\.OrderedDict")),
        context=_optional(_plain(str)),
        children_spec=_each(lambda child: _tree(child, depth + 1)),
    )
    tree: dict[str, Any] = fields(value)
    if tree["context"] is not None:
        keys = _optional(_each(_key))(json.loads(tree["context"]))
        tree["context"] = json.dumps(keys)
    return tree


def _tree_text(value: Any) -> str:
    version, tree = _plain(list)(json.loads(_plain(str)(value)))
    return json.dumps([_integer(version), _tree(tree)])


_signature_of_call = _record(
    inputs=_each(_argument(0)),
    outputs=_each(_argument(0)),
    in_spec=_tree_text,
    out_spec=_tree_text,
    forward_arg_names=_optional(_each(_name)),
)


def _root_call(entries: Any) -> list[Any]:
    """Of the whole network alone; those of its modules serve to take it apart again."""
    entry = _record(fqn=_path_name, signature=_optional(_signature_of_call))
    return [entry(one) for one in _plain(list)(entries) if isinstance(one, dict) and not one["fqn"]]


_program: Final = _record(
    graph_module=_record(
        graph=_graph(0),
        signature=_record(input_specs=_each(_input_spec), output_specs=_each(_output_spec)),
        module_call_graph=_root_call,
        metadata=_always({}),
        treespec_namedtuple_fields=_always({}),
    ),
    opset_version=_mapping(_name, _integer),
    range_constraints=_mapping(
        _symbol, _record(min_val=_optional(_integer), max_val=_optional(_integer))
    ),
    schema_version=_record(major=_integer, minor=_integer),
    verifiers=_each(_name),
    torch_version=_version,
    guards_code=_always([]),
)


def _payloads(prefix: str) -> Check:
    meta = _record(
        path_name=_text(rf"{prefix}_\d{{1,9}}"),
        is_param=_boolean,
        use_pickle=_never_pickled,
        tensor_meta=_tensor_meta_of_payload,
    )
    return _record(config=_mapping(_path_name, meta))


def _never_pickled(value: Any) -> bool:
    if value is not False:
        raise _UnplainError("a tensor that is a pickle")
    return False


def _tensor_meta_of_payload(value: Any) -> Mapping[str, Any]:
    if value is None:
        raise _UnplainError("a custom object among the tensors")
    meta: Mapping[str, Any] = _tensor_meta(value)
    if meta["device"]["type"] != "cpu":
        return {**meta, "device": {"type": "cpu", "index": None}}
    return meta
