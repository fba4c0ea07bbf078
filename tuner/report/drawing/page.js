// SPDX-License-Identifier: Apache-2.0
// What a page does when it is touched: explanations, values under the pointer, hidden lines,
// sorted tables, copied text. Without it, everything but the explanations can be read.
"use strict";
(() => {
  const tip = document.createElement("div");
  tip.id = "tip";
  tip.setAttribute("role", "status");
  document.body.append(tip);

  function show(text, x, y) {
    if (tip.textContent !== text) tip.textContent = text;
    const { width, height } = tip.getBoundingClientRect();
    const left = Math.max(4, Math.min(x + 14, innerWidth - width - 4));
    const above = y - height - 12;
    tip.style.transform = `translate(${left}px,${above > 4 ? above : y + 20}px)`;
    tip.style.visibility = "visible";
  }
  function hide() {
    tip.style.visibility = "hidden";
    for (const line of document.querySelectorAll(".cursor")) line.remove();
  }

  // Explanations and values of single marks.
  document.addEventListener("pointermove", (event) => {
    const marked = event.target.closest?.("[data-tip]");
    if (marked) show(marked.dataset.tip, event.clientX, event.clientY);
    else if (!event.target.closest?.("svg[data-scale]")) hide();
  });
  document.addEventListener("focusin", (event) => {
    const marked = event.target.closest?.("[data-tip]");
    if (!marked) return hide();
    const box = marked.getBoundingClientRect();
    show(marked.dataset.tip, box.left, box.top);
  });
  document.addEventListener("click", (event) => {
    const marked = event.target.closest?.("[data-tip]");
    if (marked) show(marked.dataset.tip, event.clientX, event.clientY);
  });
  document.addEventListener("keydown", (event) => event.key === "Escape" && hide());
  addEventListener("scroll", hide, { passive: true });

  // Values of all lines at the pointer's place.
  const number = (value) =>
    value.toLocaleString("en", { maximumFractionDigits: Math.abs(value) < 10 ? 4 : 1 });
  function valueAt(series, x) {
    let found = null;
    for (let k = 0; k < series.x.length; k += 1) {
      if (series.x[k] <= x || (!series.step && found === null)) found = series.y[k];
      if (series.x[k] > x) break;
    }
    return x > series.x[series.x.length - 1] * 1.0001 ? null : found;
  }
  for (const svg of document.querySelectorAll("svg[data-scale]")) {
    const holder = svg.closest(".panel") ?? svg.closest("figure");
    const data = JSON.parse(holder.querySelector("script").textContent);
    const [left, right, low, high, log, top, bottom] = JSON.parse(svg.dataset.scale);
    svg.addEventListener("pointermove", (event) => {
      if (event.target.closest("[data-tip]")) return;
      const box = svg.getBoundingClientRect();
      const at = ((event.clientX - box.left) / box.width) * svg.viewBox.baseVal.width;
      if (at < left || at > right) return hide();
      const share = (at - left) / (right - left);
      const x = log ? low * (high / low) ** share : low + share * (high - low);
      const lines = [];
      for (const series of data.series) {
        const group = [...svg.querySelectorAll("[data-series]")]
          .find((each) => each.dataset.series === series.name);
        if (group?.classList.contains("off")) continue;
        const value = valueAt(series, x);
        if (value !== null) lines.push(`${series.name}: ${number(value)}`);
      }
      if (!lines.length) return hide();
      let cursor = svg.querySelector(".cursor");
      if (!cursor) {
        cursor = document.createElementNS("http://www.w3.org/2000/svg", "path");
        cursor.setAttribute("class", "cursor");
        svg.append(cursor);
      }
      cursor.setAttribute("d", `M${at} ${top}V${bottom}`);
      const whole = data.series.some((series) => series.step); // steps count measurements
      const shown = whole ? Math.floor(x) : Math.round(x * 100) / 100;
      show(`${number(shown)} ${data.x}\n${lines.join("\n")}`,
        event.clientX, event.clientY);
    });
    svg.addEventListener("pointerleave", hide);
  }

  // Legends hide and show.
  for (const button of document.querySelectorAll("[data-toggle]")) {
    button.addEventListener("click", () => {
      const shown = button.getAttribute("aria-pressed") !== "true";
      button.setAttribute("aria-pressed", String(shown));
      for (const mark of button.closest("figure").querySelectorAll("[data-series]"))
        if (mark.dataset.series === button.dataset.toggle) mark.classList.toggle("off", !shown);
    });
  }

  // Tables sort by the column whose heading is pressed.
  function key(cell, numeric) {
    const text = cell.dataset.value ?? cell.textContent.trim();
    if (!numeric) return text;
    const value = parseFloat(text.replaceAll(",", ""));
    return Number.isNaN(value) ? -Infinity : value;
  }
  for (const table of document.querySelectorAll("table")) {
    const body = table.tBodies[0];
    if (body.rows.length < 2) continue;
    [...table.tHead.rows[0].cells].forEach((heading, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...heading.childNodes);
      for (const word of button.querySelectorAll("[tabindex]")) {
        button.dataset.tip = word.dataset.tip; // one stop of the Tab key
        word.removeAttribute("tabindex");
      }
      heading.append(button);
      button.addEventListener("click", () => {
        const numeric = heading.classList.contains("n");
        const now = heading.getAttribute("aria-sort");
        const up = now ? now === "descending" : !numeric;
        for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
        heading.setAttribute("aria-sort", up ? "ascending" : "descending");
        const sorted = [...body.rows].sort((a, b) => {
          const [x, y] = [key(a.cells[column], numeric), key(b.cells[column], numeric)];
          const order = numeric ? x - y : x.localeCompare(y, "en", { numeric: true });
          return up ? order : -order;
        });
        body.append(...sorted);
      });
    });
  }

  // Text to copy.
  for (const button of document.querySelectorAll("button.copy")) {
    button.addEventListener("click", async () => {
      const code = button.parentElement.querySelector("code");
      try {
        await navigator.clipboard.writeText(code.textContent);
      } catch {
        getSelection().selectAllChildren(code); // a file: page may not reach the clipboard
        document.execCommand("copy");
      }
      button.textContent = "Copied";
      setTimeout(() => { button.textContent = "Copy"; }, 1500);
    });
  }
})();
