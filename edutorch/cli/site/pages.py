"""What is added to JupyterLite's pages: one sentence where a browser cannot do what is needed.

JupyterLite's own pages stay blank there, and say nothing.
"""

from __future__ import annotations

from pathlib import Path

from .versions import OP, SiteError

APPS = ("lab", "notebooks")

SCRIPT = """\
<script>
(() => {
  const say = (text) => {
    const box = document.createElement("div");
    box.setAttribute("role", "alert");
    box.style.cssText = "position:fixed;z-index:99999;left:0;right:0;bottom:0;padding:12px 16px;" +
      "font:16px sans-serif;background:#fff3cd;color:#332701;border-top:2px solid #a67c00";
    box.textContent = text + " ";
    const close = document.createElement("button");
    close.textContent = "Close";
    close.onclick = () => box.remove();
    box.append(close);
    const show = () => document.body.append(box);
    document.body ? show() : addEventListener("DOMContentLoaded", show);
  };
  if (location.protocol === "file:") {
    say("This page has to be served. In a terminal: python -m edutorch site serve FOLDER");
    return;
  }
  if (typeof WebAssembly !== "object" || !("Tag" in WebAssembly)) {
    say("This browser is too old for Python in a tab (it has no WebAssembly exceptions): " +
      "take a newer one.");
    return;
  }
  if (!("serviceWorker" in navigator)) {
    say("Python cannot see your files here (the browser gives this page no service worker): " +
      "notebooks run, but files beside them are not found.");
  }
  const lost = () => say("Your work will be gone when this tab is closed (a private window, or a " +
    "browser that keeps nothing): download it with File, Download.");
  try {
    const request = indexedDB.open("edutorch storage test");
    request.onerror = lost;
    request.onsuccess = () => {
      request.result.close();
      indexedDB.deleteDatabase("edutorch storage test");
      navigator.storage?.persist?.();
    };
  } catch {
    lost();
  }
})();
</script>
"""


def add_to_pages(site: Path) -> None:
    """Put the script into each page, before any other.

    Raises: SiteError: JupyterLite wrote none.
    """
    pages = [page for app in APPS for page in (site / app).rglob("index.html")]
    pages += [site / "index.html"]
    if not all(page.is_file() for page in pages):
        raise SiteError(OP, "JupyterLite wrote no pages")
    for page in pages:
        text = page.read_text("utf-8")
        page.write_text(text.replace("<head>", "<head>\n" + SCRIPT, 1), "utf-8")
