"use strict";
(() => {
  const box = document.querySelector(".find");
  const input = document.getElementById("find");
  const found = document.getElementById("found");
  const bodies = [...document.querySelectorAll("table tbody")];
  const rows = bodies.flatMap((body) => [...body.rows]);
  const texts = new Map();
  const textOf = (row) => {
    if (!texts.has(row)) texts.set(row, row.textContent.toLowerCase());
    return texts.get(row);
  };
  const filter = () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    let count = 0;
    for (const row of rows) {
      const fits = words.every((word) => textOf(row).includes(word));
      if (row.classList.contains("gone") === fits) row.classList.toggle("gone", !fits);
      if (fits) count += 1;
    }
    const changed = document.getElementById("only-changed");
    if (changed && words.length) changed.checked = false;
    found.textContent = words.length ? `${count} row${count === 1 ? "" : "s"}` : "";
  };
  let timer = 0;
  input.addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(filter, 80); });
  box.hidden = false;
  document.addEventListener("keydown", (event) => {
    if (event.key === "/" && !/INPUT|TEXTAREA|SELECT/.test(document.activeElement.tagName)) {
      event.preventDefault();
      input.focus();
    }
    if (event.key === "Escape" && document.activeElement === input) { input.value = ""; filter(); }
  });

  const valueOf = (row, column) => {
    const cell = row.cells[column];
    return cell.dataset.v === undefined ? cell.textContent.trim() : Number(cell.dataset.v);
  };
  const compare = (a, b) =>
    typeof a === "number" && typeof b === "number"
      ? a - b
      : String(a).localeCompare(String(b), undefined, { numeric: true });
  const sort = (head, column) => {
    const up = head.getAttribute("aria-sort") !== "ascending";
    for (const other of head.parentNode.cells) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", up ? "ascending" : "descending");
    const body = head.closest("table").tBodies[0];
    const keyed = [...body.rows].map((row) => [valueOf(row, column), row]);
    keyed.sort((a, b) => (up ? compare(a[0], b[0]) : compare(b[0], a[0])));
    body.append(...keyed.map((pair) => pair[1]));
  };
  for (const head of document.querySelectorAll("table.data thead th")) {
    if (!head.textContent.trim()) continue;
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => sort(head, head.cellIndex));
  }

  const lanes = document.querySelector("table.lanes");
  if (lanes) {
    const waits = (number) => {
      const row = document.getElementById(`step-${number}`);
      return row ? [...row.querySelectorAll("a")].map((link) => link.textContent) : [];
    };
    const mark = (number) => {
      const before = new Set(number ? waits(number) : []);
      lanes.classList.toggle("dim", Boolean(number));
      for (const chip of lanes.querySelectorAll(".chip")) {
        chip.classList.toggle("self", chip.dataset.step === number);
        chip.classList.toggle("before", before.has(chip.dataset.step));
      }
    };
    const over = (event) => {
      const chip = event.target.closest(".chip");
      mark(chip ? chip.dataset.step : "");
    };
    lanes.addEventListener("mouseover", over);
    lanes.addEventListener("focusin", over);
    lanes.addEventListener("mouseleave", () => mark(""));
    lanes.addEventListener("focusout", () => mark(""));
  }
})();
