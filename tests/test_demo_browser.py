"""The live page in a real browser: Chromium without a window, driven by Selenium. The decoder is a double, except in
the last test; layout, workers and the service are real. Takes no screenshots."""

from __future__ import annotations

import base64
import json
import shutil
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from demo_checks import AXE, CONTRAST
from serve_helpers import pdf, picture, settings

pytest.importorskip("selenium", reason="selenium is not installed")
pytest.importorskip("fastapi", reason="the extra serve is not installed")

from selenium import webdriver
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select, WebDriverWait

from derender.recognise.types import DecodeStats, Request, Result, TokenOut

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")
pytestmark = pytest.mark.skipif(
    CHROMIUM is None or DRIVER is None, reason="chromium and chromedriver are not on this machine"
)
TEXT = "Unmasked <b id=x>step</b> by step"
DOUBTFUL = TEXT.index("by")


class SteppingRecogniser:
    """Test double: always reads TEXT, four characters a forward, or one in mode ar. With `gate` closed, one region
    is read and the next waits."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.gate.set()
        self.more = 1

    def recognise(self, requests: Iterable[Request | None]) -> Iterator[Result]:
        for request in requests:
            if request is None:
                return
            if not self.gate.is_set():
                self.more -= 1
                if self.more < 0:
                    self.gate.wait(20)
            mode = request.decode.mode if request.decode else "exact"
            width = 1 if mode == "ar" else 4
            tokens = [TokenOut(letter, 0.5 if i == DOUBTFUL else 0.99, i // width + 1) for i, letter in enumerate(TEXT)]
            forwards = tokens[-1].step or 0
            stats = DecodeStats(mode, tokens=len(tokens), forwards=forwards, seconds=0.01 * forwards)
            lines = request.lines or ()
            yield Result(request.id, TEXT, tokens, [TEXT] * len(lines), lines, stats=stats)


class Page:
    """What the tests do with the page."""

    def __init__(self, driver: Any, address: str) -> None:
        self.driver, self.address = driver, address

    def open(self, fragment: str = "") -> None:
        self.driver.get("about:blank")
        self.driver.get(self.address + fragment)
        self.state("start", "token") if not fragment else self.state("result")

    def state(self, *names: str) -> None:
        self.until(lambda: self.js("return document.body.dataset.state") in names, f"state {names}")

    def until(self, condition: Callable[[], Any], what: str) -> Any:
        return WebDriverWait(self.driver, 20, 0.05).until(lambda _: condition(), what)

    def js(self, script: str, *arguments: Any) -> Any:
        return self.driver.execute_script(script, *arguments)

    def id(self, name: str) -> Any:
        return self.driver.find_element(By.ID, name)

    def all(self, css: str) -> list[Any]:
        return list(self.driver.find_elements(By.CSS_SELECTOR, css))

    def upload(self, path: Path) -> None:
        self.id("file").send_keys(str(path))

    def keys(self, *keys: str) -> None:
        ActionChains(self.driver).send_keys(*keys).perform()

    def media(self, width: int, height: int, **features: str) -> None:
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        wanted = [{"name": name.replace("_", "-"), "value": value} for name, value in features.items()]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": wanted})

    def lanes(self) -> list[dict[str, Any]]:
        return list(
            self.js(
                "return [...document.querySelectorAll('.lane')].map(l => ({mode: l.dataset.mode,"
                " ended: l.dataset.ended, text: l.querySelector('.lane-text').textContent,"
                " spoken: l.querySelector('p.hidden').textContent,"
                " states: [...l.querySelectorAll('.lane-text span')].map(s => s.dataset.state)}))"
            )
        )

    def seek(self, share: float) -> None:
        self.js(
            "const s = document.getElementById('scrub'); s.value = 1000 * arguments[0];"
            " s.dispatchEvent(new Event('input'))",
            share,
        )

    def drop(self, name: str, data: bytes) -> None:
        """A file dropped on whatever is shown."""
        self.js(
            "const bytes = Uint8Array.from(atob(arguments[1]), (c) => c.charCodeAt(0));"
            "const dataTransfer = new DataTransfer(); dataTransfer.items.add(new File([bytes], arguments[0]));"
            "document.body.dispatchEvent(new DragEvent('drop', {dataTransfer, bubbles: true, cancelable: true}))",
            name,
            base64.b64encode(data).decode(),
        )

    def faults(self) -> list[str]:
        """What the console says; a blocked resource or script would be there. Answers with 4xx are meant."""
        found = [entry["message"] for entry in self.driver.get_log("browser")]
        return [message for message in found if "the server responded with a status of 4" not in message]


def serve_app(changed: Any, recogniser: Any) -> tuple[Any, threading.Thread, str]:
    import socket

    import uvicorn

    from derender.serve.app import create_app

    app = create_app(changed, None if recogniser is None else lambda: recogniser)
    sock = socket.socket()
    sock.bind(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_level="error", timeout_graceful_shutdown=1))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [sock]}, daemon=True)
    thread.start()
    return server, thread, f"http://127.0.0.1:{sock.getsockname()[1]}/"


@pytest.fixture(scope="module")
def downloads(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("downloads")


@pytest.fixture(scope="module")
def driver(downloads: Path) -> Iterator[Any]:
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM or ""
    for argument in ("headless=new", "no-sandbox", "disable-dev-shm-usage", "disable-gpu", "window-size=1300,900"):
        options.add_argument(f"--{argument}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    made = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    made.set_script_timeout(10)
    made.execute_cdp_cmd("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(downloads)})
    yield made
    made.quit()


@pytest.fixture(scope="module")
def recogniser() -> SteppingRecogniser:
    return SteppingRecogniser()


@pytest.fixture(scope="module")
def address(recogniser: SteppingRecogniser) -> Iterator[str]:
    server, thread, found = serve_app(settings(max_pages=9), recogniser)
    yield found
    server.should_exit = True
    thread.join(10)


@pytest.fixture(scope="module")
def document(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two pages; the name tries to be markup."""
    path = tmp_path_factory.mktemp("in") / "<img src=x onerror=alert(1)>.pdf"
    path.write_bytes(pdf(2))
    return path


@pytest.fixture(scope="module")
def job(address: str, document: Path) -> str:
    """A job that is done, as the page's address has it."""
    import httpx

    with httpx.Client(base_url=address) as client:
        fields = {"keep_input": "true", "tokens": "true", "mode": "ocr"}
        id = client.post("/v1/jobs", files={"file": (document.name, document.read_bytes())}, data=fields).json()["id"]
        while client.get(f"/v1/jobs/{id}").json()["status"] != "done":
            time.sleep(0.05)
    return f"#job={id}"


@pytest.fixture
def page(driver: Any, address: str) -> Iterator[Page]:
    made = Page(driver, address)
    made.media(1300, 900, prefers_color_scheme="light", prefers_reduced_motion="no-preference")
    made.faults()
    yield made
    assert made.faults() == []


def test_from_a_file_to_pages_with_boxes_and_text(page: Page, recogniser: SteppingRecogniser, document: Path) -> None:
    recogniser.gate.clear()
    recogniser.more = 1
    page.open()
    page.upload(document)
    page.state("reading")
    try:
        page.until(lambda: page.id("progress-text").text == "1 of 2 pages are read.", "progress")
        said = page.id("progress-said")  # not each page is announced, which would drown all else
        assert said.get_attribute("role") == "status" and "being sent" in page.js(
            "return arguments[0].textContent", said
        )
        assert page.id("progress").get_attribute("value") == "1" and page.id("cancel").is_enabled()
    finally:
        recogniser.gate.set()
    page.state("result")
    assert page.js("return document.activeElement.id") == "result"
    assert document.name in page.id("file-name").text  # as text: no picture and no alert came of it
    first = page.until(lambda: page.all(".region"), "regions")[0]
    frame = page.all(".page-frame")[0]
    page.until(lambda: page.js("return arguments[0].querySelector('img').naturalWidth", frame), "the page's picture")
    assert len(page.all(".page")) == 2
    inside, around = first.rect, frame.rect
    assert around["x"] <= inside["x"] and inside["x"] + inside["width"] <= around["x"] + around["width"]
    assert 0 < inside["height"] < 0.3 * around["height"]
    assert TEXT in page.all(".block")[0].text and not page.all("#blocks b, #x")
    assert [m.text for m in page.all(".block mark.doubt")[:1]] == ["b"]
    assert "50% sure" in page.js("return document.querySelector('.block .hidden').textContent")


def test_a_region_is_unmasked_step_by_step_beside_one_at_a_time(page: Page, job: str) -> None:
    page.open(job)
    page.all(".region")[0].click()
    page.until(lambda: len(page.lanes()) == 2, "two lanes")
    page.until(lambda: page.lanes()[0]["ended"] == "false" and "fresh" in page.lanes()[0]["states"], "playing")
    page.seek(0.1)
    window, ar = page.lanes()
    assert (window["mode"], ar["mode"]) == ("sliding", "ar")
    # A tenth of the time of ar is 3 forwards: 12 characters by four, 3 by one.
    assert window["states"][:13] == ["settled"] * 8 + ["fresh"] * 4 + ["masked"]
    assert ar["states"][:4] == ["settled", "settled", "fresh", "ahead"] and "masked" not in ar["states"]
    page.seek(1)
    for lane in page.lanes():
        assert lane["text"] == lane["spoken"] == TEXT and set(lane["states"]) == {"settled"}
    said = page.id("replay-measured").text
    forwards = -(-len(TEXT) // 4)
    assert f"sliding took {forwards} forwards and {10 * forwards} ms" in said and f"{len(TEXT)} forwards" in said
    assert f"{len(TEXT) / forwards:.1f} times as fast" in said and "same, letter for letter" in said
    Select(page.id("decode")).select_by_value("exact")
    page.until(lambda: [lane["mode"] for lane in page.lanes()] == ["exact", "ar"], "another mode")
    page.until(lambda: page.id("replay-status").text == "Both have ended.", "the end")


def test_the_timeline_masks_what_a_window_or_block_holds(page: Page) -> None:
    page.open()
    script = """
      const done = arguments[0];
      import("/static/timeline.js").then(({ states }) => {
        const tokens = [1, 1, 2, 1, 3, 3].map((step) => ({ step }));
        const at = (mode, forward) =>
          states({ mode, window: 4, forwards: 3, tokens }, forward).map((s) => s[0]).join("");
        done([at("block", 1), at("block", 2), at("block", 3), at("sliding", 1), at("ar", 1)]);
      })"""
    assert page.driver.execute_async_script(script) == ["ffmfaa", "ssfsmm", "ssssss", "ffmfmm", "ffafaa"]


def test_everything_by_keyboard(page: Page, job: str) -> None:
    page.open(job)
    focused = "const e = document.activeElement; return [e.id, e.className]"
    for _ in range(12):
        page.keys(Keys.TAB)
        if "region" in page.js(focused)[1]:
            break
    region = page.js("return document.activeElement.dataset.region")
    assert region == "p1r1" and page.js("return getComputedStyle(document.activeElement).outlineStyle") == "solid"
    page.keys(Keys.ENTER)
    page.until(lambda: len(page.lanes()) == 2, "two lanes")
    for _ in range(8):
        page.keys(Keys.TAB)
        if page.js(focused)[0] == "scrub":
            break
    page.keys(Keys.END)
    assert page.id("replay-status").text == "Both have ended."
    assert "forward 33" in page.id("scrub").get_attribute("aria-valuetext").lower()
    page.keys(Keys.ESCAPE)
    page.until(lambda: not page.id("replay").is_displayed(), "closed")
    assert page.js("return document.activeElement.dataset.region") == region
    page.js("document.getElementById('tab-read').focus()")
    page.keys(Keys.ARROW_RIGHT)
    assert page.js(focused)[0] == "tab-edit" and page.id("markdown").is_displayed()


def test_edit_preview_copy_and_download(page: Page, job: str, downloads: Path) -> None:
    page.open(job)
    page.id("tab-edit").click()
    area = page.id("markdown")
    assert "Unmasked" in area.get_attribute("value")
    hostile = "<script>window.hurt = 1</script><img src=x onerror='window.hurt = 1'>"
    text = f"# Edited\n\n$x^2$ {hostile}\n\n|a|b|\n|-|-|\n|1|2|\n"
    area.clear()
    area.send_keys(text)
    page.until(lambda: page.all("#preview math msup") and page.all("#preview td"), "a formula and a table")
    assert page.all("#preview h1")[0].text == "Edited" and page.js("return window.hurt") is None
    assert not page.all("#preview script, #preview img")
    page.js("navigator.clipboard.writeText = (text) => { window.copied = text; return Promise.resolve(); }")
    page.id("copy").click()
    page.until(lambda: page.id("text-note").text == "Markdown copied, with your changes.", "copied")
    assert page.js("return window.copied") == text
    for kind in ("md", "json"):
        Select(page.id("format")).select_by_value(kind)
        page.id("download").click()
    found = page.until(
        lambda: len(files := [*downloads.glob("*.md"), *downloads.glob("*.json")]) == 2 and files, "files"
    )
    assert found[0].read_text("utf-8") == text
    assert json.loads(found[1].read_text("utf-8"))["pages"][0]["regions"][0]["text"] == TEXT
    page.id("revert").click()
    assert "Unmasked" in area.get_attribute("value") and not page.id("revert").is_enabled()


def test_cancelling_while_the_document_is_sent_stays_at_the_start(page: Page, document: Path) -> None:
    page.open()
    page.js(
        "const real = window.fetch; window.asked = 0; window.fetch = async (path, options) => {"
        " if (options?.method === 'POST') { window.asked = 1; await new Promise((r) => setTimeout(r, 500)); }"
        " try { return await real(path, options); } finally { if (window.asked) window.asked = 2; } }"
    )
    page.upload(document)
    page.until(lambda: page.js("return window.asked") == 1, "sending")
    assert page.js("return document.activeElement.id") == "reading-title"
    page.id("cancel").click()
    page.until(lambda: page.js("return window.asked") == 2, "sent, or not")
    time.sleep(0.3)
    assert page.js("return document.body.dataset.state") == "start" and not page.id("problem").is_displayed()


def test_a_second_document_takes_the_place_of_the_first(page: Page, job: str, recogniser: SteppingRecogniser) -> None:
    page.open(job)
    page.all(".region")[0].click()
    page.until(lambda: len(page.lanes()) == 2, "two lanes")
    recogniser.gate.clear()
    recogniser.more = 0
    try:
        page.drop("first.pdf", pdf(2))  # also where the dialog lies above the page
        page.until(lambda: page.id("progress-text").text == "The first page is being read …", "the first")
        assert not page.id("replay").is_displayed()
        page.drop("second.png", picture())
    finally:
        recogniser.gate.set()
    page.state("result")
    time.sleep(0.5)
    assert page.id("file-name").text == "second.png" and len(page.all(".page")) == 1


def test_changes_are_not_lost_unasked(page: Page, job: str) -> None:
    page.open(job)
    page.id("tab-edit").click()
    area = page.id("markdown")
    area.send_keys("mine ")
    page.id("another").click()
    page.driver.switch_to.alert.dismiss()
    assert "mine" in area.get_attribute("value") and area.is_displayed()
    # Text that is dragged or pasted into the field is the field's, with a picture beside it, too.
    script = """
      const dataTransfer = new DataTransfer();
      dataTransfer.setData("text/plain", "moved");
      const drop = new DragEvent("drop", { dataTransfer, bubbles: true, cancelable: true });
      const clipboardData = new DataTransfer();
      clipboardData.items.add(new File(["a"], "a.png"));
      const paste = new ClipboardEvent("paste", { clipboardData, bubbles: true, cancelable: true });
      for (const event of [drop, paste]) arguments[0].dispatchEvent(event);
      return drop.defaultPrevented"""
    assert page.js(script, area) is False
    assert page.id("result").is_displayed() and not page.id("problem").is_displayed()
    page.id("another").click()
    page.driver.switch_to.alert.accept()
    page.state("start")


def test_doubt_that_cannot_be_underlined_is_told(page: Page) -> None:
    page.open()
    script = """
      const done = arguments[0], root = document.createElement("div");
      const html = "<math><mi>x</mi></math>";
      const blocks = [{ region: "r", regions: ["r"], page: 1, type: "formula", doubtful: 2, html }];
      import("/static/text.js").then(({ showBlocks, doubtSentence }) => {
        showBlocks(root, blocks, () => false);
        done([root.querySelector(".rest").textContent, doubtSentence(root, blocks)]);
      })"""
    note, sentence = page.driver.execute_async_script(script)
    assert note == "2 doubtful places here, not underlined."
    assert sentence.startswith("2 doubtful places could not be underlined")


@pytest.mark.parametrize(
    ("name", "data", "sentence"),
    [
        ("broken.pdf", b"%PDF-1.4 <script>alert(1)</script>", "“broken.pdf” is truncated or damaged"),
        ("nothing.pdf", b"", "The document is empty."),
        ("ten.pdf", None, "9"),
    ],
)
def test_a_hostile_file_gives_one_clear_sentence(
    page: Page, tmp_path: Path, name: str, data: bytes | None, sentence: str
) -> None:
    path = tmp_path / name
    path.write_bytes(pdf(10) if data is None else data)
    page.open()
    page.upload(path)
    said = page.until(lambda: page.id("problem").is_displayed() and page.id("problem-text").text, "the error")
    assert sentence in said and not said[0].islower() and said.endswith(".") and "Traceback" not in said
    assert page.id("problem").get_attribute("role") == "alert" and page.id("start").is_displayed()


def test_the_token_is_asked_for_and_kept_in_the_tab(page: Page, tmp_path: Path) -> None:
    server, thread, address = serve_app(settings(token="a secret token"), SteppingRecogniser())
    try:
        page = Page(page.driver, address)
        page.open()
        page.state("token")
        page.id("token").send_keys("wrong", Keys.ENTER)
        page.until(lambda: "does not know this token" in page.id("problem-text").text, "refused")
        page.id("token").send_keys("a secret token", Keys.ENTER)
        page.state("start")
        path = tmp_path / "a.png"
        path.write_bytes(picture())
        page.upload(path)
        page.state("result")
        page.until(lambda: page.js("return document.querySelector('.page-frame img').naturalWidth"), "the picture")
        assert "secret" not in page.driver.current_url and page.driver.get_cookies() == []
        assert page.js("return localStorage.length") == 0
    finally:
        server.should_exit = True
        thread.join(10)


def test_a_phones_width_needs_no_sideways_scrolling(page: Page, job: str) -> None:
    page.media(360, 740)

    def fits() -> bool:
        return bool(page.js("return document.documentElement.scrollWidth <= 360 && innerWidth === 360"))

    page.open()
    assert fits()
    page.open(job)
    assert fits() and page.id("pages-pane").is_displayed() and not page.id("text-pane").is_displayed()
    page.id("show-text").click()
    assert fits() and page.id("text-pane").is_displayed() and not page.id("pages-pane").is_displayed()
    assert page.js(CONTRAST) == []  # the switch under the pointer included
    page.id("tab-edit").click()
    page.id("markdown").clear()
    page.id("markdown").send_keys("|a very long heading|" * 6 + "\n" + "|-" * 11 + "|\n\n" + "longword" * 30)
    page.until(lambda: "longword" in page.id("preview").text, "the preview")
    assert fits()
    page.id("show-pages").click()
    page.all(".region")[0].click()
    page.until(lambda: len(page.lanes()) == 2, "two lanes")
    page.seek(0.5)
    dialog = page.js("const d = document.getElementById('replay'); return [d.scrollWidth, d.clientWidth]")
    assert fits() and dialog[0] <= dialog[1]
    one, other = (element.rect for element in page.all(".lane-text"))
    assert one["y"] == other["y"] < 600 and one["x"] + one["width"] <= other["x"]  # side by side, in sight


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_names_labels_headings_and_contrast(page: Page, job: str, scheme: str) -> None:
    page.media(1300, 900, prefers_color_scheme=scheme, prefers_reduced_motion="reduce")
    page.open()
    page.js("document.querySelector('details').open = true")
    for step in ("start", "read", "edit", "replay"):
        if step == "read":
            page.open(job)
        if step == "edit":
            page.id("tab-edit").click()
        if step == "replay":
            page.all(".region")[0].click()
            page.until(lambda: len(page.lanes()) == 2, "two lanes")
            assert page.id("play").text == "Play again"  # with reduced motion nothing moves by itself
        assert page.js(AXE) == [] and page.js(CONTRAST) == [], step
        within = "dialog " if step == "replay" else "body "  # what lies behind a dialog has no name meanwhile
        named = page.all(
            ", ".join(within + kind for kind in ("button", "input", "select", "textarea", "[role=region]"))
        )
        unnamed = [e.get_attribute("outerHTML") for e in named if e.is_displayed() and not e.accessible_name]
        assert unnamed == [], step


def test_the_shipped_weights_read_and_replay_a_scan(page: Page, tmp_path: Path) -> None:
    server, thread, address = serve_app(settings(), None)
    try:
        page = Page(page.driver, address)
        path = tmp_path / "scan.png"
        path.write_bytes(picture())
        page.open()
        page.upload(path)
        page.state("result")
        assert "A line of text that is read" in page.all(".block")[0].text
        page.all(".region")[0].click()
        page.until(lambda: len(page.lanes()) == 2, "two lanes")
        page.seek(1)
        assert [lane["spoken"] for lane in page.lanes()] == ["A line of text that is read"] * 2
    finally:
        server.should_exit = True
        thread.join(10)
