"""The site in a real browser: it renders, filters work, nothing is asked of a network, and axe finds nothing serious.

Driven by selenium in headless Chromium (Debian: chromium and chromium-driver), straight from ``file://``.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from importlib import resources
from pathlib import Path

import pytest

from dsregress.advisories.job_facts import said_fact
from dsregress.advisories.shipped import read_advisories
from dsregress.advisories.upgrading import judge_upgrade
from dsregress.compare import Comparison, Thresholds, compare
from dsregress.config.settings import read_settings
from dsregress.model import Failed
from dsregress.report.context import report_context
from dsregress.report.html.audit_data import fact_json
from dsregress.report.html.site import build_site
from dsregress.report.verdict_words import upgrade_headline
from dsregress.run.pipeline import compare_stored
from dsregress.store import Store
from tests.builders.comparisons import comparison
from tests.builders.explanations import explained_as_measured
from tests.builders.synthetic import noisy_record, result
from tests.offline.waiting import until
from tests.paths import ROOT
from tests.unit.advisories.questions import QUESTIONS, stated

selenium = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")

CHROMIUM = next(
    (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), ""
)
DRIVER = shutil.which("chromedriver") or ""

pytestmark = [
    pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="no chromium and chromedriver here (Debian: chromium-driver)"),
    pytest.mark.filterwarnings("ignore"),  # selenium's own
]

#: What a script does a moment later is there by then, also on a busy machine.
_SCRIPT_S = 20.0
WIDTHS = {"phone": (390, 844), "desktop": (1280, 900)}
CHOOSE = """
const field = document.querySelector(arguments[0]);
field.value = arguments[1];
field.dispatchEvent(new Event("input", {bubbles: true}));
"""

HOSTILE = "</script><script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">"


def hostile() -> Comparison:
    results = [
        result("0.15.0", variant=HOSTILE),
        result("0.16.0", variant=HOSTILE, outcome=Failed("init", HOSTILE, f"Traceback\n{HOSTILE}")),
        result("0.17.0", variant=HOSTILE, run=noisy_record(3, held_mib=9)),
    ]
    return compare(results, results[0].cell.stack.id, Thresholds(), lambda r: None)


@pytest.fixture(scope="module")
def browser() -> Iterator[selenium.Chrome]:
    options = selenium.ChromeOptions()
    options.binary_location = CHROMIUM
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = selenium.Chrome(options=options, service=selenium.ChromeService(DRIVER))
    try:
        yield driver
    finally:
        driver.quit()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    build_site(report_context(comparison(), exit_code=1), folder, explained=explained_as_measured)
    return folder


def one_of_each(folder: Path) -> list[Path]:
    names = ("finding", "problem", "release", "workload", "trend")
    drawn = next(folder.glob("finding/regression-device_retained_bytes-*"))
    return [*sorted(folder.glob("*.html")), drawn, *(sorted((folder / name).glob("*.html"))[0] for name in names)]


def requested(driver: selenium.Chrome) -> list[str]:
    messages = [json.loads(entry["message"])["message"] for entry in driver.get_log("performance")]
    return [m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"]


def resize(driver: selenium.Chrome, width: int, height: int) -> None:
    metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)


@pytest.mark.parametrize("width", WIDTHS)
def test_pages_render_without_errors_or_requests_and_never_scroll_sideways(
    width: str, browser: selenium.Chrome, site: Path
) -> None:
    resize(browser, *WIDTHS[width])
    for page in one_of_each(site):
        browser.get(page.as_uri())
        assert browser.find_element("css selector", "h1").is_displayed(), page.name
        inner, scrolled = browser.execute_script("return [innerWidth, document.documentElement.scrollWidth]")
        assert scrolled <= inner, f"{page.name} is wider than the window"
        assert browser.get_log("browser") == [], page.name
        assert all(url.startswith((site.as_uri(), "data:")) for url in requested(browser)), page.name


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious(scheme: str, browser: selenium.Chrome, site: Path) -> None:
    axe = resources.files("axe_core_python").joinpath("axe.min.js").read_text(encoding="utf-8")
    resize(browser, *WIDTHS["desktop"])
    wanted = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", wanted)
    for page in one_of_each(site):
        browser.get(page.as_uri())
        browser.execute_cdp_cmd("Runtime.evaluate", {"expression": axe})  # past the page's own policy
        found = browser.execute_async_script("axe.run().then(arguments[arguments.length - 1])")
        serious = [
            (one["id"], [node["html"][:150] for node in one["nodes"][:3]])
            for one in found["violations"]
            if one["impact"] in ("serious", "critical")
        ]
        assert serious == [], page.name


def test_filters_narrow_the_matrix_and_survive_a_reload(browser: selenium.Chrome, site: Path) -> None:
    resize(browser, *WIDTHS["desktop"])
    browser.get((site / "index.html").as_uri())
    browser.execute_script(CHOOSE, '[data-filter="axis"]', "0.16.4")
    heads = browser.find_elements("css selector", ".matrix thead th")
    assert [head.text for head in heads if head.is_displayed()] == ["Workload", "0.16.4"]
    browser.get(browser.current_url)
    browser.refresh()
    heads = browser.find_elements("css selector", ".matrix thead th")
    assert [head.text for head in heads if head.is_displayed()] == ["Workload", "0.16.4"]
    browser.execute_script(CHOOSE, '[data-filter="text"]', "no such workload")
    assert browser.find_element("css selector", "[data-count]").text == "0 of 1 rows"


def test_a_cell_opens_its_evidence_by_keyboard(browser: selenium.Chrome, site: Path) -> None:
    resize(browser, *WIDTHS["desktop"])
    browser.get((site / "index.html").as_uri())
    browser.find_element("css selector", ".matrix td.k-regression a").send_keys("\ue007")
    until(lambda: "/finding/" in browser.current_url, _SCRIPT_S)
    assert browser.find_element("css selector", "pre code").text.startswith("dsregress regress")


def test_two_stacks_are_set_beside_each_other_from_a_file(browser: selenium.Chrome, site: Path) -> None:
    resize(browser, *WIDTHS["desktop"])
    browser.get((site / "compare.html").as_uri())
    until(lambda: browser.find_elements("css selector", "[data-result] caption"), _SCRIPT_S)
    browser.execute_script(CHOOSE, '[data-side="b"]', "3")
    until(lambda: "0.16.4 against 0.15.0" in browser.find_element("css selector", "caption").text, _SCRIPT_S)
    assert "backward: device memory held after it ends" in browser.find_element("css selector", "[data-result]").text


def test_a_link_names_the_stacks_that_are_compared(browser: selenium.Chrome, site: Path) -> None:
    browser.get("about:blank")
    browser.get((site / "compare.html").as_uri() + "#a=0.16.0&b=0.16.4")
    until(lambda: browser.find_elements("css selector", "[data-result] caption"), _SCRIPT_S)
    assert "0.16.4 against 0.16.0" in browser.find_element("css selector", "[data-result] caption").text


def test_differences_below_the_thresholds_show_when_all_are_asked_for(browser: selenium.Chrome, site: Path) -> None:
    browser.get("about:blank")
    browser.get((site / "compare.html").as_uri() + "#b=0.16.4")
    until(lambda: browser.find_elements("css selector", "[data-result] caption"), _SCRIPT_S)
    shown = {}
    for what in ("", "changed", "all"):
        browser.execute_script(CHOOSE, '[data-side="what"]', what)
        shown[what] = int(browser.find_element("css selector", "[data-count]").text.split()[0])
    assert 0 < shown[""] < shown["changed"] <= shown["all"]


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Published:
    """The default set and the sweep, as they are published."""
    return Published(tmp_path_factory.mktemp("published"))


class Published:
    """Sites of the published bundles."""

    settings = read_settings()

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def store(self, bundle: str) -> Store:
        return Store(str(sorted((ROOT / "results").glob(bundle))[-1]))

    def comparison(self, bundle: str) -> Comparison:
        store = self.store(bundle)
        stacks = store.stack_ids()
        base = next(stack for stack in stacks if stack.endswith("deepspeed0.15.0"))
        return compare_stored([store], base, self.settings, lambda problem: None, stacks)

    def site(self, bundle: str) -> Path:
        folder = self._folder / bundle.strip("*-?.").replace("?", "")
        if not folder.exists():
            build_site(report_context(self.comparison(bundle), self.settings.thresholds, exit_code=1), folder)
        return folder


DEFAULT_SET, SWEEP = "????-??-??.jsonl.gz", "*-sweep.jsonl.gz"


def test_the_first_page_says_whether_to_upgrade_as_audit_does(browser: selenium.Chrome, published: Published) -> None:
    browser.get((published.site(DEFAULT_SET) / "index.html").as_uri())
    until(lambda: browser.execute_script("return Boolean(window.dsregressAnswer)"), _SCRIPT_S)
    for question in QUESTIONS:
        if not question.to:
            continue
        facts = {one.name: fact_json(one.value) for one in map(said_fact, question.facts)}
        job = {"versions": dict(question.job), "facts": facts, "to": dict(question.to)}
        said = browser.execute_script("return dsregressAnswer(JSON.parse(arguments[0])).headline", json.dumps(job))
        old = stated(question)
        new = old.going_to(question.to)
        assert said == upgrade_headline(judge_upgrade(read_advisories(), old.job, new.job), old, new)


def test_the_answer_is_about_the_readers_job(browser: selenium.Chrome, published: Published) -> None:
    browser.get("about:blank")
    stated_job = "#from=0.15.4&to=0.16.4&zero_stage=3&gradient_checkpointing=%22non_reentrant%22&world_size=2"
    browser.get((published.site(DEFAULT_SET) / "index.html").as_uri() + stated_job)
    answer = browser.find_element("css selector", "[data-answer]")
    until(lambda: "no: Gathered parameters stay after backward" in answer.text, _SCRIPT_S)
    assert "go to deepspeed 0.16.8" in answer.text
    assert "dsregress audit -r requirements.txt --to deepspeed==0.16.4 --set zero_stage=3" in answer.text
    browser.execute_script(CHOOSE, '[data-choice="to"]', "0.16.8")
    until(lambda: "0.15.4 -> 0.16.8: no known problem" in answer.text, _SCRIPT_S)
    browser.execute_script(CHOOSE, '[data-choice="lora_rank"]', "0")
    assert "to=0.16.8" in browser.current_url
    assert "lora_rank=0" in browser.current_url


def test_other_packages_can_change_with_it_or_alone(browser: selenium.Chrome, published: Published) -> None:
    browser.get("about:blank")
    stated_job = (
        "#from=0.16.8&to=0.16.8&beside=torch%3D%3D2.9.1%20transformers%3D%3D4.57.6&others=transformers%3D%3D5.24.0"
    )
    browser.get((published.site(DEFAULT_SET) / "index.html").as_uri() + stated_job)
    answer = browser.find_element("css selector", "[data-answer]")
    until(lambda: "transformers 4.57.6 -> 5.24.0: " in answer.text, _SCRIPT_S)
    assert "dsregress audit -r requirements.txt --to transformers==5.24.0" in answer.text


def test_a_search_finds_what_stands_on_other_pages(browser: selenium.Chrome, published: Published) -> None:
    browser.get((published.site(SWEEP) / "index.html").as_uri())
    browser.execute_script(CHOOSE, '[data-filter="text"]', "lora")
    elsewhere = browser.find_element("css selector", "[data-everywhere]")
    until(lambda: "On the other pages" in elsewhere.text, _SCRIPT_S)
    assert "lora_rank" in elsewhere.text
    browser.get((published.site(SWEEP) / "findings.html").as_uri())
    browser.execute_script(CHOOSE, '[data-filter="text"]', "collectives")
    elsewhere = browser.find_element("css selector", "[data-everywhere]")
    until(lambda: "On the other pages" in elsewhere.text, _SCRIPT_S)
    elsewhere.find_element("css selector", "a").click()
    until(lambda: "/finding/" in browser.current_url, _SCRIPT_S)


def test_pages_of_a_sweep_are_below_100_kb(published: Published) -> None:
    pages = list(published.site(SWEEP).rglob("*.html"))
    assert len(pages) > 100
    assert [(page.name, page.stat().st_size) for page in pages if page.stat().st_size >= 100_000] == []


def test_script_in_a_name_or_a_signature_is_text_on_every_page(browser: selenium.Chrome, tmp_path: Path) -> None:
    build_site(report_context(hostile(), exit_code=1), tmp_path)
    for page in one_of_each(tmp_path):
        browser.get(page.as_uri())
        if page.name == "compare.html":
            until(lambda: browser.find_elements("css selector", "[data-result] tbody tr"), _SCRIPT_S)
        assert browser.title.endswith("· dsregress"), page.name
        assert browser.find_elements("css selector", "img, script:not([src])") == [], page.name
    browser.get((tmp_path / "findings.html").as_uri())
    assert "document.title='owned'" in browser.find_element("css selector", "main").text


def test_the_page_is_whole_without_scripts(browser: selenium.Chrome, site: Path) -> None:
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        browser.get((site / "index.html").as_uri())
        assert browser.find_element("css selector", ".matrix tbody td").is_displayed()
        assert not browser.find_element("css selector", ".filters").is_displayed()
    finally:
        browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
