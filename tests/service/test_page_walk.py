"""Reviewing in a browser: by keyboard, in bulk, by two reviewers, while the server fails, with 20,000 rows."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from alphita.review.records import FINAL
from tests.service.page_service import PageService, serving
from tests.waiting import wait_until

sync_api = pytest.importorskip("playwright.sync_api")
CHROMIUM = os.environ.get("ALPHITA_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = [pytest.mark.slow, pytest.mark.skipif(CHROMIUM is None, reason="no Chromium; ALPHITA_CHROMIUM names one")]
expect = sync_api.expect
# Of a machine that does other things, too.
expect.set_options(timeout=30_000)
SIZE = {"width": 1280, "height": 720}


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@contextmanager
def opened(browser: Any, url: str, *, key: str = "", **options: Any) -> Iterator[Any]:
    """Open the page as a visitor of its own, and see that nothing goes wrong in it meanwhile."""
    context = browser.new_context(**{"viewport": SIZE, "accept_downloads": True, "reduced_motion": "reduce"} | options)
    page = context.new_page()
    page.wrong = []
    page.on("pageerror", lambda error: page.wrong.append(str(error)))
    page.on("console", lambda line: page.wrong.append(line.text) if "Content Security Policy" in line.text else None)
    page.on("request", lambda asked: None if asked.url.startswith((url, "blob:")) else page.wrong.append(asked.url))
    page.goto(url)
    if key:
        page.fill("#key-input", key)
        page.keyboard.press("Enter")
    ready(page)
    yield page
    assert page.wrong == []
    context.close()


@contextmanager
def reviewing(browser: Any, lab: PageService, **options: Any) -> Iterator[Any]:
    with serving(lab) as url, opened(browser, url, **options) as page:
        yield page


def ready(page: Any) -> None:
    """Wait until the candidates of the row in hand are there."""
    page.wait_for_selector("#hand[data-candidates=shown]")


def in_hand(page: Any) -> str:
    return page.inner_text("#hand-mention")


def press(page: Any, *keys: str) -> None:
    """Press keys, each when the row in hand has its candidates."""
    for key in keys:
        ready(page)
        page.keyboard.press(key)


def saved(page: Any, lab: PageService, number: int) -> None:
    """Wait until the server has so many decisions and the page knows it."""
    expect(page.locator("#pending")).to_have_text("")
    page.wait_for_function("() => !document.querySelector('.is-saving, .is-waiting')")

    def count() -> int:
        return len([decision for decision in lab.decisions if decision.kind != "undo"])

    # With the last open row's, no row is there to say that it is being saved.
    wait_until(lambda: count() >= number)
    assert count() == number


def test_thirty_rows_by_keyboard_alone(browser):
    lab = PageService(rows=40)
    by_mention = {row.mention: row for row in lab.table}
    with reviewing(browser, lab) as page:
        seen = []
        done: list[tuple[str, dict[str, Any]]] = []

        def decide(*keys: str, **wanted: Any) -> None:
            mention = in_hand(page)
            seen.append(mention)
            press(page, *keys)
            done.append((mention, wanted))
            page.wait_for_function(
                "before => document.getElementById('hand-mention').textContent !== before", arg=mention
            )

        for _ in range(12):
            answer = by_mention[in_hand(page)].candidates[0].concept_id
            decide("Enter", kind="accept" if answer else "nil", concept_id=answer)
        for number in range(2, 6):
            other = by_mention[in_hand(page)].candidates[number - 1].concept_id
            decide(str(number), kind="choose", concept_id=other, relation="exact")
        for key, relation in zip("bnr", ("broad", "narrow", "related"), strict=True):
            other = by_mention[in_hand(page)].candidates[1].concept_id
            decide(key, "2", kind="choose", concept_id=other, relation=relation)
        for key, kind in (("x", "nil"), ("d", "reject"), ("s", "skip"), ("f", "flag")):
            decide(key, kind=kind, concept_id=None)
        # Another concept, by typing a part of its name.
        mention = in_hand(page)
        press(page, "/")
        page.keyboard.type("numb knee")
        expect(page.locator("#picker-concept h3")).to_have_text("numbness of the knee")
        page.keyboard.press("Enter")
        done.append((mention, {"kind": "choose", "concept_id": "T:0000034", "relation": "exact"}))
        seen.append(mention)
        page.wait_for_function("before => document.getElementById('hand-mention').textContent !== before", arg=mention)
        # A comment goes with the next decision.
        press(page, "c")
        page.keyboard.type("see <b>letter</b>")
        page.keyboard.press("Control+Enter")
        expect(page.locator(".draft")).to_contain_text("see <b>letter</b>")
        decide("x", kind="nil", comment="see <b>letter</b>")
        for _ in range(5):
            decide("x", kind="nil")
        assert len(set(seen)) == 30
        saved(page, lab, 30)
        for decision, (mention, wanted) in zip(lab.decisions, done, strict=True):
            assert lab.row_of[decision.row].mention == mention
            assert {name: getattr(decision, name) for name in wanted} == wanted
        # Riskiest first.
        risks = [by_mention[mention].risk for mention in seen]
        assert risks == sorted(risks, reverse=True)
        # After loading again, what was decided is gone from the list of open rows; what was skipped comes last.
        page.reload()
        ready(page)
        expect(page.locator("#queue-count")).to_have_text("11 rows, open")
        assert in_hand(page) not in seen
        assert page.locator("#list .item .mention").last.inner_text() == seen[done.index((seen[21], done[21][1]))]
        assert done[21][1]["kind"] == "skip"


def test_undo_brings_the_row_back(browser):
    lab = PageService(rows=12)
    with reviewing(browser, lab) as page:
        mention = in_hand(page)
        press(page, "x")
        expect(page.locator("#hand-mention")).not_to_have_text(mention)
        saved(page, lab, 1)
        press(page, "Control+z")
        expect(page.locator("#hand-mention")).to_have_text(mention)
        expect(page.locator("#said")).to_contain_text("Undone: NIL")
        # What is decided then has seen the undo.
        press(page, "d")
        expect(page.locator("#hand-mention")).not_to_have_text(mention)
        saved(page, lab, 2)
        assert lab.in_force(lab.decisions[0].row)["local"] == "reject"
        press(page, "u")
        expect(page.locator("#hand-mention")).to_have_text(mention)
        press(page, "u")
        expect(page.locator("#said")).to_have_text("You have no decision to undo.")
        assert not lab.in_force(lab.decisions[0].row)


def test_bulk_is_previewed_and_undone_as_a_whole(browser):
    lab = PageService(rows=300)
    with reviewing(browser, lab) as page:
        press(page, "B")
        expect(page.locator("#bulk-apply")).to_have_text(re.compile(r"Accept \d+ rows"))
        page.fill("#bulk-number", "0.9")
        rows = [row for row in lab.table if row.confidence >= 0.9]
        expect(page.locator("#bulk-apply")).to_have_text(f"Accept {len(rows)} rows")
        figures = page.inner_text("#bulk-preview")
        assert f"{sum(row.frequency for row in rows):,}" in figures
        wrong = sum(1 - row.confidence for row in rows)
        assert f"{wrong:.1f} rows" in figures
        assert lab.decisions == []
        # The preview of another threshold has to come first.
        page.fill("#bulk-number", "7")
        expect(page.locator("#bulk-apply")).to_be_disabled()
        page.fill("#bulk-number", "0.9")
        page.click("#bulk-apply:enabled")
        expect(page.locator("#said")).to_contain_text(f"{len(rows)} rows accepted in bulk")
        expect(page.locator("#queue-count")).to_have_text(f"{300 - len(rows)} rows, open")
        assert len(lab.decisions) == len(rows)
        press(page, "u")
        expect(page.locator("#said")).to_contain_text(f"{len(rows)} decisions, accepted in bulk")
        expect(page.locator("#queue-count")).to_have_text("300 rows, open")
        assert not any(lab.in_force(row.id) for row in lab.table)


def test_a_decision_is_pending_until_the_server_has_it(browser):
    lab = PageService(rows=12)
    with reviewing(browser, lab) as page:
        lab.failing = [503, 507, 503, 503, 503, 503]
        first = in_hand(page)
        press(page, "x")
        expect(page.locator("#hand-mention")).not_to_have_text(first)
        expect(page.locator("#pending")).to_have_text("1 decision not saved yet")
        expect(page.locator("#notices")).to_contain_text("Kept in this browser")
        expect(page.locator("#list .is-waiting .mention")).to_have_text(first)
        press(page, "x")
        expect(page.locator("#pending")).to_have_text("2 decisions not saved yet")
        assert lab.decisions == []
        page.click("#retry")
        expect(page.locator("#notices")).to_contain_text("the disk is full")
        # It is not lost by loading the page again.
        page.once("dialog", lambda dialog: dialog.accept())
        page.reload()
        lab.failing = []
        ready(page)
        saved(page, lab, 2)
        assert [decision.kind for decision in lab.decisions] == ["nil", "nil"]
        expect(page.locator("#notices")).to_be_empty()


def test_a_decision_that_never_comes_through_can_be_given_up(browser):
    lab = PageService(rows=12, failing=[500] * 5)
    with reviewing(browser, lab) as page:
        press(page, "x", "d")
        for _ in range(4):
            page.wait_for_selector("#retry")
            page.click("#retry")
            page.wait_for_timeout(150)
        page.click("#discard")
        expect(page.locator("#notices")).to_contain_text("was not saved: made to fail")
        saved(page, lab, 1)
        assert lab.decisions[0].kind == "reject"


def test_another_key_does_not_decide_for_the_one_before(browser):
    lab = PageService(rows=12, keys={"key-one": "ann", "key-two": "bob"})
    with reviewing(browser, lab, key="key-one") as page:
        lab.allow({"key-two": "bob"})
        press(page, "x")
        expect(page.locator("#key")).to_be_visible()
        page.fill("#key-input", "key-two")
        page.keyboard.press("Enter")
        expect(page.locator("#who")).to_contain_text("bob")
        ready(page)
        expect(page.locator("#queue-count")).to_have_text("12 rows, open")
        assert lab.decisions == []
        # It waits for its own reviewer.
        lab.allow({"key-one": "ann"})
        page.reload()
        page.fill("#key-input", "key-one")
        page.keyboard.press("Enter")
        expect(page.locator("#who")).to_contain_text("ann")
        ready(page)
        saved(page, lab, 1)
        assert lab.decisions[0].reviewer == "ann"


@pytest.mark.parametrize("replace", [False, True])
def test_the_second_tab_sees_the_first(browser, replace):
    lab = PageService(rows=12)
    with serving(lab) as url, opened(browser, url) as one, opened(browser, url) as other:
        assert in_hand(one) == in_hand(other)
        press(one, "x")
        saved(one, lab, 1)
        press(other, "d")
        expect(other.locator("#conflict-theirs")).to_have_text("NIL: no concept fits")
        expect(other.locator("#conflict-mine")).to_have_text("rejected")
        assert len(lab.decisions) == 1
        other.click("#conflict-replace" if replace else "#conflict-keep")
        saved(other, lab, 2 if replace else 1)
        assert lab.in_force(lab.decisions[0].row)["local"] == ("reject" if replace else "nil")


def test_two_reviewers_are_blind_and_then_settled(browser):
    lab = PageService(rows=6, keys={"key-one": "ann", "key-two": "bob"})
    with serving(lab) as url:
        with opened(browser, url, key="key-one") as page:
            press(page, "x", "x", "Enter")
            saved(page, lab, 3)
        context = browser.new_context(viewport=SIZE)
        page = context.new_page()
        page.goto(url)
        page.fill("#key-input", "wrong")
        page.keyboard.press("Enter")
        expect(page.locator("#key-about")).to_contain_text("not, or no longer, known")
        page.fill("#key-input", "key-two")
        page.keyboard.press("Enter")
        ready(page)
        expect(page.locator("#queue-count")).to_have_text("6 rows, open")
        expect(page.locator(".decisions")).to_have_count(0)
        expect(page.locator("#who")).to_contain_text("bob")
        press(page, "d", "x", "2")
        saved(page, lab, 6)
        press(page, "p")
        expect(page.locator("#progress-body")).to_contain_text(
            "1 of 3 rows that two or more reviewers have decided agree"
        )
        page.keyboard.press("Escape")
        press(page, "g")
        expect(page.locator("#disagreements-body .choices li")).to_have_count(2)
        page.keyboard.press("1")
        # A rejection settles nothing; the other decision does.
        if page.locator("#disagreements-said").inner_text().startswith("A rejection"):
            page.keyboard.press("2")
        expect(page.locator("#disagreements-said")).to_contain_text("is settled")
        page.keyboard.press("/")
        page.keyboard.press("Control+a")
        page.keyboard.type("knee pain")
        expect(page.locator("#picker-concept h3")).to_have_text("pain of the knee")
        page.keyboard.press("Enter")
        expect(page.locator("#disagreements-body")).to_contain_text("No disagreements to settle")
        settled = [decision for decision in lab.decisions if decision.kind == "adjudicate"]
        assert [one.concept_id for one in settled] == [None, "T:0000030"]
        context.close()


def test_filters(browser):
    lab = PageService(rows=150)
    with reviewing(browser, lab) as page:
        press(page, "q")
        page.keyboard.type("knee")
        some = [row for row in lab.table if "knee" in row.mention or "knee" in (row.candidates[0].concept_name or "")]
        expect(page.locator("#queue-count")).to_have_text(f"{len(some)} rows, open")
        page.fill("#filter-search", "")
        page.select_option("#filter-order", "row")
        expect(page.locator("#hand-mention")).to_contain_text("onerror")
        page.fill("#filter-type", "Sign")
        page.locator("#filter-type").press("Enter")
        signs = [row for row in lab.table if row.types == ("Sign",)]
        expect(page.locator("#queue-count")).to_have_text(f"{len(signs)} rows, open")
        page.fill("#filter-type", "")
        page.select_option("#filter-state", "decided")
        expect(page.locator("#queue-count")).to_have_text("0 rows, decided")
        page.select_option("#filter-state", "all")
        expect(page.locator("#queue-count")).to_have_text("150 rows")


def test_export_and_import(browser, tmp_path):
    lab = PageService(rows=5)
    with reviewing(browser, lab) as page:
        press(page, "x")
        saved(page, lab, 1)
        press(page, "e")
        expect(page.locator("#export-formats input")).to_have_count(9)
        page.get_by_label("SSSOM", exact=True).check()
        with page.expect_download() as download:
            page.get_by_role("button", name="Export").click()
        assert download.value.suggested_filename == "lab.sssom.tsv"
        lines = [line for line in download.value.path().read_text().splitlines() if not line.startswith("#")]
        assert len(lines) == 2
        answers = tmp_path / "ward 7.csv"
        answers.write_text("row,mention,concept_id\n1,ear ache,T:0000000\n2,knee,T:0000030\n")
        page.set_input_files("#import-file", answers)
        page.fill("#import-source", "LAB")
        assert page.input_value("#import-name") == "ward 7"
        page.get_by_role("button", name="Import", exact=True).click()
        expect(page.locator("#files-said")).to_contain_text("2 new rows")
        imported = lab.store.project("ward 7")
        assert (imported.source, imported.column) == ("LAB", "description")
        assert {standing.row.mention for standing in lab.store.every("ward 7")} == {"ear ache", "knee"}


def test_twenty_thousand_rows_are_scrolled(browser):
    lab = PageService(rows=20_000)
    with reviewing(browser, lab) as page:
        expect(page.locator("#queue-count")).to_have_text("20,000 rows, open")
        assert page.locator("#list .item").count() < 60
        height = page.evaluate("document.querySelector('#list .item').getBoundingClientRect().height")
        for place in (2_345, 19_990, 5_000):
            page.evaluate("top => { document.getElementById('list').scrollTop = top; }", place * height)
            shown = page.locator(f"#option-{place} .mention")
            expect(shown).to_have_text(lab.table[place].mention)
            assert page.locator("#list .item").count() < 60
        # Pages that flew by were not fetched.
        assert len(lab.paged) < 10
        # By wheel, a frame is never long.
        page.evaluate(
            """() => { window.frames_ = []; let last = performance.now();
            const step = (now) => { window.frames_.push(now - last); last = now; requestAnimationFrame(step); };
            requestAnimationFrame(step); }"""
        )
        page.mouse.move(100, 500)
        for _ in range(60):
            page.mouse.wheel(0, 2_000)
        page.wait_for_timeout(300)
        frames = sorted(page.evaluate("window.frames_"))
        assert frames[len(frames) // 2] < 50, "median of a frame, ms"
        # What is decided far down is the row that was shown, and the pages fetched afterwards lack none.
        page.evaluate("document.getElementById('list').scrollTop = 0")
        page.locator("#option-0").click()
        press(page, "x", "x", "x")
        saved(page, lab, 3)
        page.evaluate("top => { document.getElementById('list').scrollTop = top; }", 700 * height)
        expect(page.locator("#option-700 .mention")).to_have_text(lab.table[700].mention)
        page.locator("#option-700").click()
        expect(page.locator("#hand-mention")).to_have_text(lab.table[700].mention)
        press(page, "d")
        saved(page, lab, 4)
        assert lab.decisions[-1].row == lab.table[700].id


def test_a_list_with_skips_comes_to_its_end(browser):
    lab = PageService(rows=130)
    with reviewing(browser, lab) as page:
        number = len(lab.table)
        page.fill("#filter-search", "lab-")
        expect(page.locator("#queue-count")).to_have_text(f"{number} rows, open")
        page.keyboard.press("Escape")
        skipped = in_hand(page)
        press(page, "s")
        expect(page.locator("#hand-mention")).not_to_have_text(skipped)
        for _ in range(number - 1):
            mention = in_hand(page)
            press(page, "x")
            if mention != skipped:
                page.wait_for_function(
                    "before => document.getElementById('hand-mention').textContent !== before",
                    arg=mention,
                    # The page of rows that follows comes when what was decided before is saved.
                    timeout=120_000,
                )
        expect(page.locator("#hand-mention")).to_have_text(skipped)
        press(page, "x")
        expect(page.locator("#hand")).to_contain_text("That was the last open row")
        saved(page, lab, number + 1)
        assert all(lab.in_force(row.id)["local"] in FINAL for row in lab.table)


@pytest.mark.parametrize(("scheme", "ground"), [("light", "rgb(243, 245, 248)"), ("dark", "rgb(16, 21, 27)")])
def test_light_and_dark(browser, scheme, ground):
    colour = "getComputedStyle(document.body).backgroundColor"
    with reviewing(browser, PageService(rows=3), color_scheme=scheme) as page:
        assert page.evaluate(colour) == ground
        press(page, "t", "t")
        assert page.evaluate(colour) == "rgb(16, 21, 27)"
        page.reload()
        ready(page)
        assert page.evaluate(colour) == "rgb(16, 21, 27)"


@pytest.mark.parametrize("size", [(1280, 720), (640, 360), (320, 640)])
def test_nothing_is_cut_off_sideways(browser, size):
    with reviewing(browser, PageService(rows=20), viewport={"width": size[0], "height": size[1]}) as page:
        wide = "document.documentElement.scrollWidth <= document.documentElement.clientWidth"
        assert page.evaluate(wide)
        for key in ("?", "B", "p", "g", "e", "c", "/"):
            press(page, key)
            dialog = page.locator("dialog[open]")
            expect(dialog).to_have_count(1)
            box = dialog.bounding_box()
            assert box["x"] >= 0
            assert box["x"] + box["width"] <= size[0]
            assert dialog.evaluate("one => one.scrollWidth <= one.clientWidth"), key
            page.keyboard.press("Escape")
            expect(dialog).to_have_count(0)


@pytest.mark.parametrize("size", [(390, 844), (800, 600)])
def test_on_a_phone_what_decides_and_what_was_said_stay_in_sight(browser, size):
    lab = PageService(rows=20)
    with reviewing(browser, lab, viewport={"width": size[0], "height": size[1]}) as page:
        mention = in_hand(page)
        for name in ("NIL", "Undo"):
            button = page.get_by_role("button", name=name, exact=True)
            box = button.bounding_box()
            assert box["y"] + box["height"] <= size[1]
            button.click()
            page.wait_for_function("() => document.getElementById('said').textContent !== ''")
            said = page.locator("#said")
            assert said.bounding_box()["y"] + said.bounding_box()["height"] <= size[1]
            assert said.bounding_box()["width"] > size[0] / 2
        expect(page.locator("#hand-mention")).to_have_text(mention)


def test_help_lists_every_key_and_can_switch_them_off(browser):
    lab = PageService(rows=5)
    with reviewing(browser, lab) as page:
        press(page, "?")
        text = page.inner_text("#help-keys")
        for key in ("Enter", "1 to 9", "/", "b", "n", "r", "x", "d", "s", "f", "c", "u", "Ctrl+z", "B", "p", "g", "?"):
            assert key in text.split() or key in text
        page.get_by_label("Keys without Ctrl are shortcuts").uncheck()
        page.keyboard.press("Escape")
        press(page, "x")
        page.wait_for_timeout(200)
        assert lab.decisions == []
        page.get_by_role("button", name="NIL").click()
        saved(page, lab, 1)


def test_texts_are_shown_as_text_all_that_can_be_used_has_a_name_and_no_bulk_without_calibration(browser):
    with reviewing(browser, PageService(rows=5, calibrated=False)) as page:
        nameless = page.evaluate(
            """() => [...document.querySelectorAll('button, input, select, textarea, [role=option], meter, progress')]
            .filter((one) => !(one.labels?.length || one.getAttribute('aria-label') || one.textContent.trim()))
            .map((one) => one.outerHTML.slice(0, 80))"""
        )
        assert nameless == []
        page.keyboard.press("Tab")
        assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none"
        press(page, "B")
        expect(page.locator("#bulk-said")).to_contain_text("no calibration")
        expect(page.locator("#bulk-apply")).to_be_disabled()
        page.keyboard.press("Escape")
        page.fill("#filter-search", "onerror")
        expect(page.locator("#hand-mention")).to_have_text("<img src=x onerror=document.title='hacked'> & co")
        assert page.title() == "Review · Alphita"
        assert page.locator("#hand img, #list img").count() == 0


def test_what_fails_is_done_once_or_told(browser):
    lab = PageService(rows=60, failing=[0])
    with reviewing(browser, lab) as page:
        # The answer is lost.
        press(page, "x")
        expect(page.locator("#pending")).to_have_text("1 decision not saved yet")
        assert len(lab.decisions) == 1
        page.click("#retry")
        saved(page, lab, 1)
        # The server refuses.
        lab.failing = [422]
        mention = in_hand(page)
        press(page, "x")
        expect(page.locator("#notices")).to_contain_text("was not saved: made to fail")
        page.get_by_role("button", name="To the row").click()
        expect(page.locator("#hand-mention")).to_have_text(mention)
        press(page, "x")
        saved(page, lab, 2)
        expect(page.locator("#notices")).to_be_empty()
        # The network fails.
        page.wait_for_load_state("networkidle")
        page.context.set_offline(True)
        press(page, "x", "d")
        expect(page.locator("#notices")).to_contain_text("the server cannot be reached")
        page.context.set_offline(False)
        saved(page, lab, 4)
        # The answer to a bulk action is lost.
        press(page, "B")
        page.wait_for_selector("#bulk-apply:enabled")
        lab.failing = [0]
        page.click("#bulk-apply")
        expect(page.locator("#bulk-said")).to_contain_text("Accepting again is safe")
        before = len(lab.decisions)
        assert before > 4
        page.click("#bulk-apply")
        expect(page.locator("#said")).to_contain_text("accepted in bulk")
        assert len(lab.decisions) == before
