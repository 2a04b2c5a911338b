"""The report in a real browser: headless Chromium, opened from disk."""

from __future__ import annotations

import base64
import json
import shutil
from collections.abc import Iterator
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_iris
from sklearn.ensemble import RandomForestClassifier

import treeproof as tp
from treeproof.present.report.instances import KINDS

pytest.importorskip("selenium", reason="selenium is not installed")
BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")
pytestmark = pytest.mark.skipif(
    BROWSER is None or DRIVER is None, reason="no Chromium with its driver; Debian: apt-get install chromium-driver"
)

NASTY = "<img src=x onerror=document.title='broken'>"
# An L2 attacker, since its counterexamples move several features; a label that is markup, since names come from users.
NAMES = ["sepal length", NASTY, "petal length", "petal width"]
LABELS = np.array(["setosa", "</script><b>versicolor", "virginica"])


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    X, y = load_iris(return_X_y=True)
    frame = pd.DataFrame(X, columns=NAMES)
    forest = RandomForestClassifier(9, max_depth=3, random_state=0).fit(frame, LABELS[y])
    attacker = tp.Attacker.lp(2, 0.3)
    result = tp.verify(forest, frame, LABELS[y], attacker, epsilon=0.1)
    file = tmp_path_factory.mktemp("report") / "iris & co.html"
    some, whoever = frame[::3], tp.Attacker.l0(4, domain=(0, 8))
    reasons = tp.explain(forest, some, domain=(0, 8), inflate=True)
    changes = tp.counterfactual(forest, some, to="setosa", attacker=whoever, k=2)
    tp.write_report(file.with_name("why.html"), forest, reasons, counterfactuals=changes, title=f"Why {NASTY}")
    return tp.write_report(
        file, forest, result, explanations=reasons, counterfactuals=changes, title=f"Iris {NASTY}", max_seconds=6
    )


@pytest.fixture(scope="module")
def driver() -> Iterator[Any]:
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = BROWSER or ""
    for flag in ("headless=new", "no-sandbox", "disable-dev-shm-usage", "disable-gpu", "window-size=1200,900"):
        options.add_argument(f"--{flag}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(DRIVER))
    yield driver
    driver.quit()


@pytest.fixture
def page(driver: Any, report: Path) -> Any:
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": []})
    driver.get(report.as_uri())
    return driver


def find(page: Any, selector: str) -> Any:
    return page.find_element("css selector", selector)


def column(page: Any, number: int) -> list[str]:
    cells = page.find_elements("css selector", f"#rows tbody tr td:nth-child({number})")
    return [cell.text for cell in cells]


def choose(page: Any, selector: str, text: str) -> None:
    from selenium.webdriver.support.ui import Select

    Select(find(page, selector)).select_by_visible_text(text)


def wait_for_label(page: Any, selector: str, text: str) -> None:
    """Waits until something is labelled as it should be: a busy browser takes a moment."""
    from selenium.webdriver.support.ui import WebDriverWait

    WebDriverWait(page, 10).until(lambda _: text in find(page, selector).get_attribute("aria-label"))


def options_of(page: Any, selector: str) -> list[str]:
    return [option.text for option in page.find_elements("css selector", f"{selector} option")]


def chosen_in(page: Any, selector: str) -> str:
    return str(find(page, f"{selector} option:checked").text)


def emulate(page: Any, scheme: str, media: str = "") -> None:
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": media, "features": features})


def brightness(page: Any, script: str) -> float:
    """Of a colour as the browser computed it: 0 is black, 255 white."""
    colour = page.execute_script(f"return {script}")
    return float(np.mean([float(part) for part in colour[colour.index("(") + 1 : -1].split(",")[:3]]))


def test_it_opens_from_disk_without_errors_and_asks_for_nothing_else(page: Any, report: Path) -> None:
    assert page.get_log("browser") == []
    events = [json.loads(entry["message"])["message"] for entry in page.get_log("performance")]
    asked = [event["params"]["request"]["url"] for event in events if event["method"] == "Network.requestWillBeSent"]
    addresses = set(asked)
    assert report.as_uri() in addresses
    assert {address for address in addresses if not address.startswith("data:")} <= {report.as_uri()}
    assert page.execute_script("return document.querySelectorAll('#rows tbody tr').length") == 25


def test_names_and_labels_are_shown_as_text(page: Any) -> None:
    assert page.title == f"Iris {NASTY}"
    assert find(page, "h1").text == f"Iris {NASTY}"
    assert page.execute_script("return document.images.length") == 0
    assert "</script><b>versicolor" in options_of(page, "#filter-label")
    for feature in options_of(page, "#slice-x"):
        choose(page, "#slice-x", feature)
    assert page.title == f"Iris {NASTY}", "a name ran as code"


def test_headers_sort_with_the_mouse_and_the_keyboard(page: Any) -> None:
    from selenium.webdriver.common.keys import Keys

    order = [name for _, name, _ in KINDS]
    assert column(page, 4) == sorted(column(page, 4), key=order.index)
    header = find(page, "#rows th[data-key=row] button")
    header.click()
    assert column(page, 1) == [str(row) for row in range(25)]
    assert find(page, "#rows th[data-key=row]").get_attribute("aria-sort") == "ascending"
    header.send_keys(Keys.ENTER)
    assert column(page, 1) == [str(row) for row in range(149, 124, -1)]
    assert find(page, "#rows th[data-key=row]").get_attribute("aria-sort") == "descending"
    find(page, "#rows th[data-key=moves] button").send_keys(Keys.SPACE)
    moves = [int(number or 0) for number in column(page, 5)]
    assert moves == sorted(moves, reverse=True) and moves[0] > 1
    assert find(page, "#rows th[data-key=row]").get_attribute("aria-sort") == "none"
    find(page, "#rows th[data-key=label] button").click()
    assert set(column(page, 2)) == {"</script><b>versicolor"}


def test_filters_narrow_the_table_and_clear(page: Any) -> None:
    choose(page, "#filter-kind", "Broken")
    broken = set(column(page, 4))
    assert broken == {"Broken"}
    count = int(find(page, "#table-note").text.split(" of ")[0])
    assert 0 < count < 150 and len(column(page, 1)) == min(count, 25)
    feature = options_of(page, "#filter-feature")[1]
    choose(page, "#filter-feature", feature)
    assert all(feature.rsplit(" (", 1)[0] in text or "more" in text for text in column(page, 6))
    find(page, "button[type=reset]").click()
    page.execute_async_script("setTimeout(arguments[0], 50)")
    assert find(page, "#table-note").text == "150 rows"
    find(page, "#filter-text").send_keys("virginica")
    assert all("virginica" in (a, b) for a, b in zip(column(page, 2), column(page, 3), strict=True))
    find(page, "#filter-text").send_keys(" nothing has this")
    assert column(page, 1) == [] and find(page, "#table-note").text == "0 of 150 rows match"


def test_pages_turn(page: Any) -> None:
    find(page, "#rows th[data-key=row] button").click()
    find(page, "#next").click()
    assert column(page, 1) == [str(row) for row in range(25, 50)]
    assert find(page, "#page").text == "Page 2 of 6"
    find(page, "#previous").click()
    assert column(page, 1)[0] == "0" and not find(page, "#previous").is_enabled()


def test_counterexamples_are_shown_before_and_after(page: Any) -> None:
    choose(page, "#filter-kind", "Broken")
    texts = column(page, 6)
    assert all("→" in text and "label becomes" in text for text in texts)


def picture(page: Any) -> str:
    return str(page.execute_script("return document.getElementById('slice-picture').innerHTML"))


@pytest.mark.slow
def test_choosing_features_and_rows_changes_the_slice(page: Any) -> None:
    seen = set()
    features = options_of(page, "#slice-x")
    assert sorted(features) == sorted(NAMES)
    for across, up in permutations(features, 2):
        choose(page, "#slice-x", across)
        choose(page, "#slice-y", up)
        wait_for_label(page, "#slice-picture", f"Plane of {across} and {up} through row")
        assert [name.text for name in page.find_elements("css selector", "#slice-picture .name")] == [across, up]
        seen.add(picture(page))
    assert len(seen) == 12, "one picture for each ordered pair"
    choose(page, "#slice-x", up)
    assert chosen_in(page, "#slice-x") == up != chosen_in(page, "#slice-y"), "a feature was shown against itself"
    for row in options_of(page, "#slice-row"):
        choose(page, "#slice-row", row)
        seen.add(picture(page))
    assert len(seen) >= 13, "the other row has another slice"
    assert "squares:" in find(page, "#slice-note").text


def extent(page: Any) -> list[tuple[float, float]]:
    """From where to where the decision boundary goes, across and up, as shares of the frame."""
    box, frame = (
        page.execute_script(f"const b = document.querySelector('#slice-picture .{name}').getBBox();"
                            "return [b.x, b.y, b.width, b.height]")
        for name in ("boundary", "frame")
    )  # fmt: skip
    left, top = (box[0] - frame[0]) / frame[2], (box[1] - frame[1]) / frame[3]
    return [(left, left + box[2] / frame[2]), (1 - top - box[3] / frame[3], 1 - top)]


def test_slices_turn_with_their_axes(page: Any) -> None:
    """When the two axes change places, so do the ends of what is drawn."""
    script = "return [...document.querySelectorAll('#slice-picture .point, #slice-picture .cross')].length"
    choose(page, "#slice-x", "petal length")
    choose(page, "#slice-y", "petal width")
    note, points, before = find(page, "#slice-note").text, page.execute_script(script), extent(page)
    choose(page, "#slice-x", "petal width")
    choose(page, "#slice-y", "petal length")
    assert find(page, "#slice-note").text == note and page.execute_script(script) == points == 150
    assert before[0] != pytest.approx(before[1], abs=0.02), "a square outline would tell nothing"
    assert extent(page)[::-1] == [pytest.approx(ends, abs=0.01) for ends in before]


def test_dark_and_light(page: Any) -> None:
    paper, ink = "getComputedStyle(document.body).backgroundColor", "getComputedStyle(document.body).color"
    emulate(page, "light")
    assert brightness(page, paper) > 240 and brightness(page, ink) < 60
    emulate(page, "dark")
    assert brightness(page, paper) < 40 and brightness(page, ink) > 200


CONTRAST = """
const linear = (v) => (v <= 10 ? v / 3294 : ((v / 255 + .055) / 1.055) ** 2.4);
const light = (c) => { const [r, g, b] = c.match(/[\\d.]+/g).map(linear); return .2126 * r + .7152 * g + .0722 * b; };
const behind = (e) => {
  for (; e; e = e.parentElement) {
    const c = getComputedStyle(e).backgroundColor;
    if (c !== "rgba(0, 0, 0, 0)") return c;
  }
  return "rgb(255, 255, 255)";
};
const has_text = (e) => [...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim());
const poor = [];
for (const e of document.querySelectorAll("body *")) {
  if (e.closest("svg, script, style, .skip") || e.disabled || !has_text(e)) continue;
  const [a, b] = [light(getComputedStyle(e).color), light(behind(e))].sort((x, y) => y - x);
  if ((a + .05) / (b + .05) < 4.5) poor.push(e.outerHTML.slice(0, 80));
}
return poor;
"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_all_text_has_contrast(page: Any, scheme: str) -> None:
    emulate(page, scheme)
    assert page.execute_script(CONTRAST) == []


@pytest.mark.parametrize("width", [390, 1200])
def test_nothing_sticks_out_sideways(page: Any, width: int) -> None:
    screen = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 600}
    page.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
    assert page.execute_script("return document.documentElement.scrollWidth") <= width
    page.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_print_is_light_whole_and_without_controls(page: Any) -> None:
    emulate(page, "dark", media="print")
    assert brightness(page, "getComputedStyle(document.body).backgroundColor") > 240
    assert not find(page, "#filters").is_displayed() and not find(page, "#slice-controls").is_displayed()
    assert find(page, "#slice-picture").is_displayed()
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": []})
    pdf = base64.b64decode(page.execute_cdp_cmd("Page.printToPDF", {"preferCSSPageSize": True})["data"])
    assert pdf.startswith(b"%PDF") and 2 <= pdf.count(b"/Type /Page\n") + pdf.count(b"/Type /Page ") <= 12


def test_every_control_has_a_name(page: Any) -> None:
    script = """return [...document.querySelectorAll("select, input, button, svg[role=img], [role=region]")].filter(
        (e) => !(e.textContent.trim() && e.tagName === "BUTTON") && !e.labels?.length
            && !e.getAttribute("aria-label") && !e.getAttribute("aria-labelledby")
    ).map((e) => e.outerHTML.slice(0, 80))"""
    assert page.execute_script(script) == []


@pytest.mark.parametrize("width", [390, 1200])
def test_the_page_about_explanations_alone_is_whole_and_fits(driver: Any, report: Path, width: int) -> None:
    screen = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 600}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
    driver.get(report.with_name("why.html").as_uri())
    assert driver.execute_script("return document.documentElement.scrollWidth") <= width
    assert driver.execute_script(CONTRAST) == []
    assert find(driver, "h1").text == f"Why {NASTY}" and not driver.find_elements("css selector", "img")
    assert len(driver.find_elements("css selector", ".reasons tbody tr")) == 50
    assert not [entry for entry in driver.get_log("browser") if entry["level"] == "SEVERE"]
    driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
