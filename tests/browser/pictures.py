"""Pictures of the site's main pages, for the README: ``python -m tests.browser.pictures SITE FOLDER``.

Needs selenium, chromium and chromium-driver, as the tests of the site do.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from selenium import webdriver

#: Picture -> page, width and height in pixels, colour scheme. The first page whose name starts so.
PICTURES = {
    "site-matrix.png": ("index.html", 1280, 800, "light"),
    "site-finding.png": ("finding/regression-device_retained_bytes-backward-llama3_70b", 1280, 1180, "dark"),
    "site-workload.png": ("workload/llama3_70b", 1280, 1080, "light"),
    "site-phone.png": ("index.html", 390, 844, "light"),
}


def main(site: Path, folder: Path) -> int:
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--hide-scrollbars"):
        options.add_argument(argument)
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(shutil.which("chromedriver") or ""))
    try:
        for name, (start, width, height, scheme) in PICTURES.items():
            page = next(
                (file for file in sorted(site.rglob("*.html")) if str(file.relative_to(site)).startswith(start)), None
            )
            if page is None:
                sys.exit(f"{site} has no page {start}*")
            metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
            driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
            wanted = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
            driver.execute_cdp_cmd("Emulation.setEmulatedMedia", wanted)
            driver.get(page.resolve().as_uri())
            driver.save_screenshot(str(folder / name))
            print(folder / name)
    finally:
        driver.quit()
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])))
