"""Finds or builds the index for a source: `--to` on the command line, `to=` in Python.

    hpo, icd10cm            an open terminology that is installed with Alphita
    hp.obo, a folder, ...   a published terminology; its format is recognised by its content (`terminology.detect`)
    X.terminology           one that was imported
    X.index                 one that was indexed

Other sources are imported, and indexed with the model for the languages of names and strings. Both results are cached
under the hash of all their inputs: so a changed file, another model or another version of Alphita leads to a new index,
and the same content is never indexed twice. Damaged files in the cache are built again.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import functools
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from alphita import __version__, artefact, clock, drafts, machine, progress, registry, textio
from alphita.encoder.resolve import DEFAULT, resolve
from alphita.errors import AlphitaError, InputError, Rejects, UsageError
from alphita.index.choice import KIND, Choice, languages_of, model_for, shipped_folder
from alphita.index.encoding import CALIBRATION, STRINGS_A_BLOCK, Blocks, Encoder, encode_block
from alphita.index.neighbours import Vectors, full
from alphita.index.store import Index, build
from alphita.progress import say
from alphita.terminology.store import load_terminology
from alphita.terminology.text import CLEANING_VERSION

if TYPE_CHECKING:
    from alphita.index.enrichment import Enrichment
    from alphita.terminology.detect import DetectedSource
    from alphita.terminology.store import Terminology

TERMINOLOGY, INDEX = "terminology", "index"
LOADERS = "alphita.terminology.loaders"
# The code that builds an artefact, on which it depends in addition to its content.
MAKERS = {TERMINOLOGY: ("terminology", "textio.py"), INDEX: ("terminology", "index", "encoder")}
# An index that learned from a review is replaced by every decision, and holds phrases that may be patient data.
OF_REVIEW = ".reviewed"
UNUSED_DAYS, UNUSED_REVIEW_DAYS = 90, 30
T = TypeVar("T")


def index_of(
    to: Path | str,
    choice: Choice | None = None,
    *,
    language: str | None = None,
    threads: int | None = None,
    verify: bool | None = None,
) -> Index:
    """Return the index for `to`; it is built first if necessary."""
    if is_index(to):
        if replace(choice or Choice(), confirmed=()) != Choice():
            raise UsageError(
                f"{to} is already an index; its options are fixed. Build a new one with: "
                "alphita index SOURCE -o OUT.index"
            )
        if choice is not None and choice.confirmed:
            say(f"{to} is already an index, so it learns no phrases from the review; for that, give its terminology")
        return Index.open(Path(to).expanduser(), verify=verify)
    choice = choice or Choice()
    choice.check()
    terminology = terminology_of(to)
    why = ""
    if choice.model is None:
        spoken = dict.fromkeys([*languages_of(load_terminology(terminology)), *filter(None, [language])])
        choice = replace(choice, model=model_for(spoken))
        why = f", for {', '.join(spoken)}" if choice.model != DEFAULT else ""
    index = _kept_index(terminology, f"{to} with {choice.model}{why}", choice, threads)
    if choice.names:
        from alphita.index.enrichment import say_given

        say_given(index.manifest)
    return index


def is_index(to: Path | str) -> bool:
    """Tell whether `to` is an index folder, which uses its own model."""
    return _kind(to) == INDEX


def terminology_of(source: Path | str) -> Path:
    """Return the terminology folder of a source; it is imported first if necessary."""
    kind = _kind(source)
    if kind == TERMINOLOGY:
        return Path(source).expanduser()
    if kind is not None:
        raise UsageError(f"{source} is an {kind}; give the terminology that it was made from")
    from alphita.terminology.detect import PACKAGED, DetectedSource, detect, find_packaged

    path = Path(source).expanduser()
    # A file or folder with this name takes precedence over a name that comes with Alphita.
    if path.exists():
        detected = detect(path)
    elif str(source) in PACKAGED:
        detected = DetectedSource(PACKAGED[str(source)][2], (find_packaged(str(source)),), {})
    else:
        raise _unknown(source)
    content = [_content(path) for path in detected.paths]
    key = artefact.hash_json([_made_by(TERMINOLOGY), detected.format, detected.settings, content])
    return _kept(TERMINOLOGY, key[:32], _verified_terminology, lambda out: _import(detected, out, str(source)))


def enrichment_of(choice: Choice, terminology: Terminology | None = None) -> Enrichment:
    """Return the options of an index for a terminology."""
    from alphita.index import enrichment

    choice.check()
    return enrichment.load(
        [(name, terminology_of(name)) for name in choice.names],
        terminology,
        borrow=choice.borrow,
        learn=choice.learn,
        confirmed=choice.confirmed,
    )


def choice_hash(choice: Choice) -> str:
    """Return the hash of an index's options, by their content."""
    choice.check()
    paths = [(terminology_of(name), "terminology") for name in choice.names]
    paths += [(shipped_folder(), KIND)] if choice.borrow else []
    hashes = [artefact.open_manifest(*place)["content_hash"] for place in paths]
    return artefact.hash_json([choice.learn, hashes, choice.confirmed])


def located(source: Path | str) -> str:
    """Return a name that comes with Alphita unchanged, and the full path of a file or folder."""
    path = Path(source).expanduser()
    if path.exists():
        if (kind := _kind(path)) is not None:
            artefact.open_manifest(path, kind)
        return str(artefact.absolute(path))
    from alphita.terminology.detect import PACKAGED

    if str(source) in PACKAGED:
        return str(source)
    raise _unknown(source)


def _kind(source: Path | str) -> str | None:
    """Return the kind of artefact in a folder; None if it is not one of Alphita's, or a name."""
    # The empty path is the current folder.
    if not str(source).strip():
        raise UsageError("an empty name; give a terminology's name, file or folder")
    manifest = Path(source).expanduser() / artefact.MANIFEST
    try:
        kind = textio.json_file(manifest)["kind"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    if kind not in (TERMINOLOGY, INDEX):
        raise InputError(f"this is a {kind}, and a terminology or an index is needed", file=source)
    return str(kind)


def _unknown(source: Path | str) -> AlphitaError:
    text = str(source)
    if "/" in text or "." in text:
        return InputError("no such file or folder", file=text)
    from alphita.terminology.detect import PACKAGED

    known = registry.unknown("terminology", text, PACKAGED)
    return UsageError(f"{known}, or give a terminology's file or folder: {text} is none")


def _made_by(kind: str) -> list[Any]:
    return [__version__, artefact.FORMAT_VERSION, CLEANING_VERSION, artefact.code_hash(*MAKERS[kind])]


def _content(path: Path) -> list[list[str]]:
    """Return name and hash of a file, or of all files of a folder; names count, because loaders may use them."""
    if not path.is_dir():
        return [[path.name, artefact.hash_file(path)]]
    files = sorted(file for file in path.rglob("*") if file.is_file())
    return [[file.relative_to(path).as_posix(), artefact.hash_file(file)] for file in files]


@functools.cache
def _model(name: str) -> list[str]:
    """Return the hashes of a shipped model and of the files next to it: an index stores a copy of both."""
    folder = resolve(name)
    hashes = [str(artefact.open_manifest(folder, "model")["content_hash"])]
    if (folder / CALIBRATION).is_dir():
        hashes.append(str(artefact.open_manifest(folder / CALIBRATION, "calibration")["content_hash"]))
    return hashes


def _import(source: DetectedSource, out: Path, name: str) -> None:
    from alphita.terminology import store

    say(f"reading {name} …")
    loader = registry.load(LOADERS, source.format)
    options = loader.Options(**source.settings)
    report = out.with_name(out.name + ".rejects.csv")
    with Rejects(report) as rejects:
        used = {"format": source.format, **options.model_dump(mode="json")}
        store.save(loader.load(list(source.paths), options, rejects), out, config=used, rejects=rejects)
    rejects.tell(say)


def _kept_index(terminology: Path, what: str, choice: Choice, threads: int | None) -> Index:
    content = artefact.open_manifest(terminology, TERMINOLOGY)["content_hash"]
    key = artefact.hash_json([_made_by(INDEX), content, _model(str(choice.model)), choice_hash(choice)])[:32]
    name = f"{key}{OF_REVIEW}" if choice.confirmed else key
    return _kept(INDEX, name, Index.open, lambda out: _index(terminology, out, what, choice, threads))


def _index(terminology: Path, out: Path, what: str, choice: Choice, threads: int | None) -> None:
    from alphita.encoder.encoder import TermEncoder
    from alphita.index.confirmed import trial

    phrases = f" and {len(choice.confirmed):,} confirmed phrases" if choice.confirmed else ""
    say(f"indexing {what}{phrases}: this is done once, and kept in {out.parent.parent}")
    encoder = TermEncoder.load(str(choice.model), threads=threads)
    terms = load_terminology(terminology)
    enrichment, blocks = enrichment_of(choice, terms), None
    if choice.confirmed:
        # Decisions change often: all other names are encoded once, for an index without a head.
        plain = _kept_index(terminology, what, replace(choice, confirmed=(), learn="no"), threads)
        blocks = reusing(plain, encoder)
        won, lost = trial(choice.confirmed, plain, encoder)
        if lost > won:
            say(f"confirmed phrases not learned: they would lead {won:,} of each other right, and {lost:,} astray")
            enrichment = enrichment.without_confirmed()
    build(terms, encoder, out, blocks=blocks, enrichment=enrichment)


def _verified_terminology(path: Path) -> Path:
    artefact.verify(path, TERMINOLOGY)
    return path


def _kept(kind: str, key: str, open_: Callable[[Path], T], make: Callable[[Path], None]) -> T:
    """Open the cached artefact with a key; build it if it is missing or damaged."""
    name = f"{key}.{kind}"
    target = machine.cache_dir() / kind / name
    if (ready := _opened(target, open_)) is not None:
        return ready
    try:
        folder = machine.cache_folder(kind)
        drafts.remove_abandoned(folder)
        lock = os.fdopen(os.open(target.with_suffix(".lock"), os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o600), "w")
    except OSError as error:
        say(f"the cache {target.parent} cannot be written ({error.strerror}); set ALPHITA_CACHE to keep what is made")
        target = _of_this_process() / kind / name
        if not target.exists():
            make(target)
        return open_(target)
    with _locked(lock):
        if (ready := _opened(target, open_)) is not None:
            return ready
        if target.is_symlink():
            target.unlink()
        elif target.exists():
            shutil.rmtree(target)
        try:
            make(target)
        except UsageError:
            # If files cannot be locked, another process may have built it in the meantime.
            if (ready := _opened(target, open_)) is None:
                raise
            return ready
        _remove_unused(target, kind)
        return open_(target)


def _remove_unused(made: Path, kind: str) -> None:
    """Remove artefacts that nobody opened for long before the others; the times of the locks record openings."""
    used: dict[Path, float] = {}
    for lock in made.parent.glob("*.lock"):
        with contextlib.suppress(OSError):
            used[lock] = lock.stat().st_mtime
    used.pop(made.with_suffix(".lock"), None)
    newest = min(clock.seconds(), max(used.values(), default=0.0))
    for lock, opened in used.items():
        days = UNUSED_REVIEW_DAYS if lock.stem.endswith(OF_REVIEW) else UNUSED_DAYS
        with contextlib.suppress(OSError):
            if opened < newest - days * 86_400:
                shutil.rmtree(lock.with_suffix(f".{kind}"), ignore_errors=True)
                lock.with_suffix(f".{kind}.rejects.csv").unlink(missing_ok=True)
                lock.unlink()


def _opened(target: Path, open_: Callable[[Path], T]) -> T | None:
    if not target.exists():
        return None
    with contextlib.suppress(OSError):
        clock.mark(target.with_suffix(".lock"))
    try:
        return open_(target)
    except InputError as error:
        say(f"{target} is made again: {error.problem}")
        return None


@contextlib.contextmanager
def _locked(lock: Any) -> Iterator[None]:  # noqa: ANN401 - an open file
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("another process is making the same; waiting for it …")
            fcntl.flock(lock, fcntl.LOCK_EX)
        except OSError:
            say(f"files of {machine.cache_dir()} cannot be locked: another process may make the same")
        yield


@functools.cache
def _of_this_process() -> Path:
    kept = contextlib.ExitStack()
    atexit.register(kept.close)
    return kept.enter_context(drafts.scratch())


def reusing(old: Index, encoder: Encoder, *, half: bool = False) -> Blocks:
    """Return a function for `store.build` that takes vectors from `old`, and encodes the strings that it lacks."""
    old.check_encoder(encoder, remedy="give the model of that index, or encode everything: leave --update out")
    if old.vectors.dtype == np.float16 and not half:
        raise UsageError(f"{old.path} holds its vectors in half precision; give --half too, or leave --update out")

    def blocks(strings: Any, encoder: Encoder) -> Iterator[Vectors]:  # noqa: ANN401
        """Yield the vectors of the strings' blocks, in order; see `encoding.Blocks`."""
        encoded = 0
        with progress.bar("Encoding new terms", total=len(strings), unit="terms") as bar:
            for start in range(0, len(strings), STRINGS_A_BLOCK):
                block = strings.slice(start, STRINGS_A_BLOCK).to_pylist()
                rows = old.rows(block)
                lacking = np.flatnonzero(rows < 0)
                vectors = np.empty((len(block), old.dim), np.float32)
                vectors[rows >= 0] = full(old.vectors[rows[rows >= 0]])
                if len(lacking):
                    vectors[lacking] = encode_block([block[place] for place in lacking], encoder)
                encoded += len(lacking)
                bar.advance(len(block))
                yield vectors
        progress.say(f"vectors of {len(strings) - encoded:,} strings taken from {old.path}, {encoded:,} encoded")

    return blocks
