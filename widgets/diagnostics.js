// What is wrong, in plain sentences, the newest first. Python finds it; here it is only shown.

/** @typedef {import("./protocol.js").TroubleData} TroubleData */
/** @typedef {import("./protocol.js").TroubleFinding} TroubleFinding */
/** @typedef {import("./panels.js").Around} Around */

export class TroublePanel {
  /** @param {Around} around */
  constructor(around) {
    this.around = around;
    this.element = document.createElement("section");
    this.element.className = "edutorch-trouble";
    this.element.setAttribute("aria-label", "Trouble");
    this.list = document.createElement("ul");
    this.list.setAttribute("role", "list");
    this.rest = document.createElement("p");
    // Read aloud when something is found, and not with each step.
    this.news = document.createElement("p");
    this.news.className = "news";
    this.news.setAttribute("role", "status");
    this.element.append(this.news, this.list, this.rest);
    this.shown = "";
    /** @type {HTMLButtonElement[]} */
    this.buttons = [];
  }

  /** @param {TroubleData} data */
  show(data) {
    const content = JSON.stringify(data.findings.map((each) => ({ ...each, node: "" })));
    if (content !== this.shown) {
      this.shown = content;
      this.news.textContent = data.findings.length === 1 ? "1 trouble found" : `${data.findings.length + data.more} troubles found`;
      this.buttons = [];
      this.list.replaceChildren(...data.findings.map((each) => this.item(each)));
      this.rest.textContent = data.more ? `and ${data.more} more, found earlier` : "";
    }
    // Another group is open, and the node has another number, or is not to be seen.
    data.findings.forEach((each, index) => {
      this.buttons[index].hidden = each.node === "";
      this.buttons[index].dataset.node = each.node;
    });
  }

  /** @param {TroubleFinding} finding */
  item(finding) {
    const item = document.createElement("li");
    item.dataset.kind = finding.kind;
    const head = troubleText("p", "says", finding.says);
    head.prepend(troubleText("span", "mark", "✗ "));
    head.append(troubleText("span", "since", ` step ${finding.step}`));
    const show = document.createElement("button");
    show.type = "button";
    show.className = "edutorch-button";
    show.textContent = "Show in the graph";
    show.setAttribute("aria-label", `Show in the graph: ${finding.says}`);
    show.onclick = () => this.around.focus(show.dataset.node ?? "");
    this.buttons.push(show);
    item.append(head);
    if (finding.line || finding.details.length) {
      const rows = [...(finding.line ? [finding.line] : []), ...finding.details];
      item.append(troubleText("pre", "details", rows.join("\n")));
    }
    item.append(troubleText("p", "do", `→ ${finding.do}`), show);
    return item;
  }
}

/** @param {string} tag @param {string} name @param {string} text */
function troubleText(tag, name, text) {
  const element = document.createElement(tag);
  element.className = name;
  element.textContent = text;
  return element;
}
