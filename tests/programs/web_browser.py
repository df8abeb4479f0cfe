"""Common code of the tests of pages: headless Chromium."""
import json
import shutil
import sys
import time

from web_testing import LIMIT

try:
    from selenium import webdriver
    from selenium.common.exceptions import JavascriptException
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.by import By
    from selenium.webdriver.chrome.options import Options
    from selenium.webdriver.chrome.service import Service
except ImportError:
    print("needs python3-selenium")
    sys.exit(77)
CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
if not CHROMIUM or not DRIVER:
    print("needs chromium and chromium-driver")
    sys.exit(77)


class Page:
    """Headless Chromium that shows the page."""

    def __init__(self, directory, width=1400, height=1000):
        options = Options()
        options.binary_location = CHROMIUM
        for argument in ["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
                         "--disable-dev-shm-usage", "--no-first-run",
                         f"--user-data-dir={directory}/chromium", f"--window-size={width},{height}"]:
            options.add_argument(argument)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        self.driver = webdriver.Chrome(service=Service(DRIVER), options=options)
        self.driver.set_page_load_timeout(LIMIT)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.driver.quit()

    def run(self, script):
        return self.driver.execute_script(script)

    def value(self, expression):
        return self.run(f"return {expression}")

    def until(self, expression, condition=bool):
        """Waits for the condition, and returns its value; its elements may not exist at first."""
        deadline = time.monotonic() + LIMIT
        while True:
            try:
                if condition(value := self.value(expression)):
                    return value
            except JavascriptException as error:
                value = error
            assert time.monotonic() < deadline, (expression, value, self.driver.get_log("browser"))
            time.sleep(0.05)

    def keys(self, text):
        for key in text:
            self.run("document.activeElement.blur(); document.body.dispatchEvent("
                     f"new KeyboardEvent('keydown', {{key: {json.dumps(key)}, bubbles: true}}))")

    def text(self, selector):
        return self.driver.find_element(By.CSS_SELECTOR, selector).text

    def wait_for_newest(self, daemon, run):
        """Waits until the loss chart has the daemon's newest message."""
        self.until(f"(() => {{ const line = runnel.panels[0].shown.find((one) => one.run.id === {run});"
                   "return line && line.data.length ? line.data[line.data.length - 1].x : 0; })()",
                   lambda x: x == daemon.examples)

    def until_colored(self, color, panel="loss", pixels=20):
        """Waits until this number of pixels of a panel's canvas have about this colour, [r, g, b]."""
        self.until("""(() => {
            const canvas = document.querySelector(arguments[0] + " .plot canvas"), want = arguments[1];
            if (!canvas) return 0; // not drawn yet
            const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
            let count = 0;
            for (let i = 0; i < data.length; i += 4)
              if (data[i + 3] > 200 && want.every((v, k) => Math.abs(data[i + k] - v) < 12)) count++;
            return count; })()""".replace("arguments[0]", json.dumps(f"#panel-{panel}"))
                   .replace("arguments[1]", json.dumps(color)), lambda count: count > pixels)

    def no_errors(self):
        errors = [entry for entry in self.driver.get_log("browser") if entry["level"] == "SEVERE"]
        assert not errors, errors


def rgb(text):
    return [int(text[i:i + 2], 16) for i in (1, 3, 5)]
