"use strict";
(() => {
  const box = document.querySelector(".find");
  const input = document.getElementById("find");
  const found = document.getElementById("found");
  const bodies = [...document.querySelectorAll("table tbody")];
  const rows = bodies.flatMap((body) => [...body.rows]);
  const texts = new Map();
  const searched = [];
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
    for (const one of searched) one(words);
    found.textContent = words.length ? `${count} row${count === 1 ? "" : "s"}` : "";
  };
  let timer = 0;
  input.addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(filter, 80); });
  box.hidden = !rows.length && !document.querySelector(".topology");
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

  // The topology: details of a node, names of blocks, arrows of moves, arrow keys
  const holder = document.getElementById("topology-data");
  if (holder) {
    const data = JSON.parse(holder.textContent);
    const topology = document.querySelector(".topology");
    const map = topology.querySelector(".map");
    const detail = document.getElementById("detail");
    const layer = map.querySelector(".arrows g");
    const nodes = [...map.querySelectorAll(".node")];
    const tileOf = (n) => document.getElementById(`tile-${n}`);
    const state = () => Math.max(0, data.states.findIndex((_, k) => {
      const pick = document.getElementById(`view-${k}`);
      return pick && pick.checked;
    }));
    const make = (tag, text, parent) => {
      const found = document.createElement(tag);
      if (text) found.textContent = text;
      if (parent) parent.append(found);
      return found;
    };
    const list = (title, texts) => {
      if (!texts.length) return;
      make("h4", title, detail);
      const items = make("ul", "", detail);
      for (const text of texts) make("li", text, items);
    };
    let open = -1;

    const draw = () => {
      if (!data.moves.length) return;
      layer.replaceChildren();
      const box = map.getBoundingClientRect();
      const middle = (n) => {
        const r = tileOf(n).getBoundingClientRect();
        return [r.left - box.left + r.width / 2, r.top - box.top + r.height / 2, r.width / 2, r.height / 2];
      };
      const pairs = new Map();
      for (const [index, before, after] of data.moves) {
        for (const role of [0, 1]) {
          const [from, to] = [before[role], after[role]];
          if (from === undefined || to === undefined || from === to) continue;
          if (role === 1 && before.includes(to)) continue;
          const key = `${from} ${to} ${role}`;
          if (!pairs.has(key)) pairs.set(key, []);
          pairs.get(key).push(data.instances[index][0]);
        }
      }
      layer.classList.toggle("many", pairs.size > 60);
      layer.classList.toggle("focus", open >= 0);
      for (const [key, names] of pairs) {
        const [from, to, role] = key.split(" ").map(Number);
        const [x, y] = middle(from);
        const [u, v, w, h] = middle(to);
        const length = Math.hypot(u - x, v - y) || 1;
        const cut = Math.min(w / (Math.abs(u - x) || .01), h / (Math.abs(v - y) || .01), .45);
        const [eu, ev] = [u - (u - x) * cut, v - (v - y) * cut];
        const bend = Math.min(40, length / 5) * (role ? -1 : 1);
        const [cx, cy] = [(x + eu) / 2 - ((v - y) / length) * bend, (y + ev) / 2 + ((u - x) / length) * bend];
        const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
        path.setAttribute("d", `M${x},${y} Q${cx},${cy} ${eu},${ev}`);
        path.setAttribute("marker-end", "url(#head)");
        if (role) path.classList.add("second");
        if (from === open || to === open) path.classList.add("on");
        layer.append(path);
      }
    };

    const show = (n) => {
      open = n;
      for (const node of nodes) node.toggleAttribute("aria-current", Number(node.dataset.n) === n);
      topology.classList.toggle("open", n >= 0);
      detail.hidden = n < 0;
      detail.replaceChildren();
      if (n >= 0) {
        const node = data.nodes[n];
        const at = state();
        const failure = (data.failures[at] || [])[n];
        const lost = new Set(data.lost[at] || []);
        const title = make("h3", "", detail);
        make("span", node.name, title);
        const close = make("button", "Close", title);
        close.type = "button";
        close.addEventListener("click", () => { show(-1); tileOf(n).focus(); });
        make("p", [`Group ${node.group}`, ...node.marks, ...(data.states.length > 1 ? [data.states[at]] : [])].join(", "), detail);
        make("p", node.amounts[at].join("; "), detail).className = "faint";
        make("h4", "If it fails", detail);
        if (failure && failure.tolerated !== null) {
          const told = make("p", failure.tolerated ? "The failure is tolerated." : "The failure is not tolerated.", detail);
          told.className = failure.tolerated ? "good-text" : "bad-text";
        } else make("p", "N+1 is not checked here.", detail);
        if (failure) {
          const items = make("ul", "", detail);
          for (const text of failure.effects) make("li", text, items);
        }
        const nodesOf = new Map();
        data.nodes.forEach((other, k) => other.held[at].forEach((some, role) => some.forEach((i) => {
          if (!nodesOf.has(i)) nodesOf.set(i, []);
          nodesOf.get(i)[role] = k;
        })));
        const move = new Map(data.moves.map(([i, from, to]) => [i, [from, to]]));
        const names = (some) => some.map((k) => (k === undefined ? "" : data.nodes[k].name)).join(" : ");
        for (const role of [0, 1]) {
          const held = node.held[at][role];
          if (!held.length) continue;
          make("h4", `${role ? "Secondary" : "Primary"} of ${held.length} instance${held.length === 1 ? "" : "s"}`, detail);
          const table = make("table", "", detail);
          const head = make("tr", "", make("thead", "", table));
          for (const text of ["Instance", "Memory", role ? "Primary" : "Fails over to"]) make("th", text, head).scope = "col";
          const body = make("tbody", "", table);
          for (const i of held) {
            const row = make("tr", "", body);
            const [name, memory, disk, cpus, template, tags] = data.instances[i];
            const cell = make("td", name, row);
            make("small", [template, `${disk} disk`, `${cpus} vcpu${cpus === 1 ? "" : "s"}`, tags].filter(Boolean).join(", "), cell);
            make("td", memory, row);
            const other = (nodesOf.get(i) || [])[1 - role];
            make("td", other === undefined ? (role ? "" : "any other node") : data.nodes[other].name, row);
            if (lost.has(i)) make("small", "cannot be restarted", cell).className = "bad-text";
            if (move.has(i)) make("small", `${names(move.get(i)[0])} \u2192 ${names(move.get(i)[1])}`, cell);
          }
        }
      }
      if (n >= 0) list("Tags", data.nodes[n].tags);
      draw();
    };

    const instanceText = (i) => { const one = data.instances[i]; return `${one[0]}: ${one[1]} memory, ${one[4]}`; };
    map.addEventListener("mouseover", (event) => {
      const block = event.target.closest("i[data-i]");
      if (block && !block.title) block.title = instanceText(Number(block.dataset.i));
    });
    const chosen = (event) => {
      const tile = event.target.closest("[data-n]");
      if (!tile || event.ctrlKey || event.metaKey || event.shiftKey) return;
      event.preventDefault();
      show(Number(tile.dataset.n));
      detail.focus({ preventScroll: true });
    };
    map.addEventListener("click", chosen);
    for (const strip of document.querySelectorAll(".strip")) strip.addEventListener("click", chosen);
    nodes.forEach((node, k) => node.setAttribute("tabindex", k ? -1 : 0));
    const steps = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 };
    map.addEventListener("keydown", (event) => {
      const at = nodes.indexOf(event.target);
      if (at < 0) return;
      const to = event.key === "Home" ? 0 : event.key === "End" ? nodes.length - 1 : at + (steps[event.key] || 0);
      if (to === at || !nodes[to]) return;
      event.preventDefault();
      nodes[at].tabIndex = -1;
      nodes[to].tabIndex = 0;
      nodes[to].focus();
    });
    document.addEventListener("keydown", (event) => {
      if (event.key === "Escape" && open >= 0 && document.activeElement !== input) {
        const back = tileOf(open);
        show(-1);
        back.focus();
      }
    });
    for (const pick of document.querySelectorAll("[name=view]")) pick.addEventListener("change", () => show(open));
    new ResizeObserver(draw).observe(map);
    const follow = () => {
      const found = /^#tile-(\d+)$/.exec(location.hash);
      if (found && data.nodes[found[1]]) show(Number(found[1]));
    };
    addEventListener("hashchange", follow);
    follow();

    // Tiles of nodes and instances that the field finds stand out
    let known = null;
    searched.push((words) => {
      known ||= data.nodes.map((node) => [node.name, node.group, ...node.tags, ...node.held.flat(2).map((i) => data.instances[i][0])].join(" ").toLowerCase());
      topology.classList.toggle("find-on", words.length > 0);
      for (const node of nodes) node.classList.toggle("hit", words.every((word) => known[Number(node.dataset.n)].includes(word)));
    });
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
