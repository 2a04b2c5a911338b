"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const byId = (id) => document.getElementById(id);
  const PAGE = 25;
  const FIRST_MOVES = 6;
  const FIRST_STEPS = 2;
  const HUES = 8;
  const [PROVED, REFUTED, UNKNOWN] = [0, 1, 2];

  // Text only, never markup: names and labels come from whoever made the data.
  const make = (tag, attributes = {}, ...children) => {
    const svg = ["svg", "path", "rect", "circle", "text", "g", "title"].includes(tag);
    const node = svg ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    node.append(...children);
    return node;
  };
  const option = (value, text) => make("option", { value }, text);
  const short = (value) => (value === null ? "missing" : String(Number(value.toPrecision(6))));
  const whole = (value) => (value === null ? "missing" : String(value));
  // --- the table of rows ---------------------------------------------------------------------------------------

  const rows = data.entries.map(([row, label, predicted, kind, after, steps = [], moves = []]) => ({
    row, kind, steps, moves,
    label: data.labels[label],
    predicted: data.labels[predicted],
    after: after === undefined ? null : data.labels[after],
  }));
  for (const row of rows) {
    const names = [...row.moves, ...row.steps].map(([feature]) => data.names[feature]);
    row.text = [row.row, row.label, row.predicted, data.kinds[row.kind][1], ...names].join("\n").toLowerCase();
  }
  const keys = {
    row: (row) => row.row,
    label: (row) => row.label,
    predicted: (row) => row.predicted,
    kind: (row) => row.kind,
    moves: (row) => row.moves.length,
  };
  const compare = (a, b) =>
    typeof a === "number" ? a - b : a.localeCompare(b, undefined, { numeric: true });
  const table = byId("rows");
  const view = { key: null, down: false, page: 0 };

  const chosen = () => {
    const kind = byId("filter-kind").value;
    const label = byId("filter-label").value;
    const feature = byId("filter-feature").value;
    const text = byId("filter-text").value.trim().toLowerCase();
    const found = rows.filter(
      (row) =>
        (kind === "" || row.kind === Number(kind)) &&
        (label === "" || row.label === data.labels[label]) &&
        (feature === "" || row.moves.some(([moved]) => moved === Number(feature))) &&
        row.text.includes(text),
    );
    if (view.key !== null) {
      const key = keys[view.key];
      const sign = view.down ? -1 : 1;
      found.sort((a, b) => sign * compare(key(a), key(b)) || a.row - b.row);
    }
    return found;
  };

  // With all digits: moves often end just beyond a threshold, and a rounded one may be no attack.
  const moveText = ([feature, before, after], kind) =>
    make("span", { class: "move" },
      make(kind === "step" ? "span" : "b", kind === "step" ? { class: "step" } : {}, data.names[feature]),
      ` ${whole(before)} → ${whole(after)}`);

  // The first few parts, and a button for the rest.
  const folded = (parts, first) => {
    if (parts.length <= first + 1) return parts;
    const hidden = parts.splice(first);
    const more = make("button", { type: "button", class: "more" }, `and ${hidden.length} more`);
    more.addEventListener("click", () => more.replaceWith(...hidden));
    return [...parts, more, " "];
  };

  const counterexample = (row) => {
    const cell = make("td");
    if (row.after === null) {
      cell.className = "none";
      cell.append("–");
      return cell;
    }
    if (row.steps.length) {
      const from = make("p", { class: "step" }, "from a neighbour: ");
      from.append(...folded(row.steps.map((step) => moveText(step, "step")), FIRST_STEPS));
      cell.append(from);
    }
    cell.append(...folded(row.moves.map((move) => moveText(move, "move")), FIRST_MOVES));
    cell.append(make("span", { class: "move" }, "label becomes ", make("span", { class: "flip" }, row.after)));
    return cell;
  };

  const showTable = () => {
    const found = chosen();
    const pages = Math.max(1, Math.ceil(found.length / PAGE));
    view.page = Math.min(view.page, pages - 1);
    const here = found.slice(view.page * PAGE, (view.page + 1) * PAGE);
    table.tBodies[0].replaceChildren(...here.map((row) => {
      const [key, name, meaning] = data.kinds[row.kind];
      return make("tr", {},
        make("td", { class: "n" }, String(row.row)),
        make("td", {}, row.label),
        make("td", {}, row.predicted),
        make("td", {}, make("span", { class: `badge ${key}`, title: meaning }, name)),
        make("td", { class: "n" }, row.moves.length ? String(row.moves.length) : ""),
        counterexample(row));
    }));
    byId("table-note").textContent =
      found.length === rows.length ? `${rows.length} rows` : `${found.length} of ${rows.length} rows match`;
    byId("page").textContent = `Page ${view.page + 1} of ${pages}`;
    byId("previous").disabled = view.page === 0;
    byId("next").disabled = view.page >= pages - 1;
    for (const head of table.querySelectorAll("th[data-key]")) {
      const sorted = head.dataset.key === view.key;
      head.setAttribute("aria-sort", sorted ? (view.down ? "descending" : "ascending") : "none");
    }
  };

  const startTable = () => {
    const labels = [...new Set(rows.map((row) => row.label))].sort(compare);
    byId("filter-label").append(...labels.map((label) => option(data.labels.indexOf(label), label)));
    const counts = new Map();
    for (const row of rows) for (const [feature] of row.moves) counts.set(feature, (counts.get(feature) || 0) + 1);
    const moved = [...counts].sort((a, b) => b[1] - a[1]);
    byId("filter-feature").append(...moved.map(([feature, n]) => option(feature, `${data.names[feature]} (${n})`)));
    for (const head of table.querySelectorAll("th[data-key]")) {
      head.firstElementChild.addEventListener("click", () => {
        const again = view.key === head.dataset.key;
        view.down = again ? !view.down : head.dataset.key === "moves";
        view.key = head.dataset.key;
        view.page = 0;
        showTable();
      });
    }
    const refresh = () => { view.page = 0; showTable(); };
    for (const event of ["input", "change"]) byId("filters").addEventListener(event, refresh);
    byId("filters").addEventListener("submit", (event) => event.preventDefault());
    byId("filters").addEventListener("reset", () => setTimeout(refresh));
    byId("previous").addEventListener("click", () => { view.page -= 1; showTable(); });
    byId("next").addEventListener("click", () => { view.page += 1; showTable(); });
    // Paper has no buttons.
    window.addEventListener("beforeprint", () => table.querySelectorAll(".more").forEach((more) => more.click()));
    showTable();
  };

  // --- the slices ----------------------------------------------------------------------------------------------

  const BOX = { left: 62, top: 10, width: 548, height: 430 };
  const hue = (k) => `var(--class${k % HUES})`;

  const unpack = (cut, n, turned) => {
    const codes = new Int32Array(n * n);
    let at = 0;
    for (let i = 0; i < cut.runs.length; i += 2) {
      codes.fill(cut.runs[i], at, at + cut.runs[i + 1]);
      at += cut.runs[i + 1];
    }
    if (!turned) return { codes, low: cut.low, high: cut.high };
    const other = new Int32Array(n * n);
    for (let i = 0; i < n; i++) for (let j = 0; j < n; j++) other[j * n + i] = codes[i * n + j];
    return { codes: other, low: [...cut.low].reverse(), high: [...cut.high].reverse() };
  };

  // One path for all squares that a test picks, in runs along each line; the first line is at the bottom.
  const squares = (codes, n, picks) => {
    const [w, h] = [BOX.width / n, BOX.height / n];
    let path = "";
    for (let i = 0; i < n; i++) {
      for (let j = 0; j < n; j++) {
        if (!picks(codes[i * n + j])) continue;
        const start = j;
        while (j + 1 < n && picks(codes[i * n + j + 1])) j++;
        const x = BOX.left + start * w;
        const y = BOX.top + (n - 1 - i) * h;
        path += `M${x.toFixed(1)} ${y.toFixed(1)}h${((j + 1 - start) * w).toFixed(1)}v${(h + 0.05).toFixed(2)}h${(-(j + 1 - start) * w).toFixed(1)}z`;
      }
    }
    return path;
  };

  const boundary = (codes, n) => {
    const [w, h] = [BOX.width / n, BOX.height / n];
    const label = (i, j) => Math.floor(codes[i * n + j] / 3);
    let path = "";
    for (let i = 0; i < n; i++) {
      for (let j = 0; j < n; j++) {
        const [x, y] = [BOX.left + j * w, BOX.top + (n - 1 - i) * h];
        if (j + 1 < n && label(i, j) !== label(i, j + 1)) path += `M${(x + w).toFixed(1)} ${y.toFixed(1)}v${h.toFixed(2)}`;
        if (i + 1 < n && label(i, j) !== label(i + 1, j)) path += `M${x.toFixed(1)} ${y.toFixed(1)}h${w.toFixed(2)}`;
      }
    }
    return path;
  };

  // Lines and dots are drawn one by one and clipped, since patterns are lost in some printers.
  const hatching = () => {
    let path = "";
    for (let d = -BOX.height; d < BOX.width; d += 7) {
      path += `M${BOX.left + d} ${BOX.top + BOX.height}l${BOX.height} ${-BOX.height}`;
    }
    return path;
  };
  const specks = () => {
    let path = "";
    for (let x = 4; x < BOX.width; x += 8) {
      for (let y = 4; y < BOX.height; y += 8) path += `M${BOX.left + x} ${BOX.top + y}h1.6v1.6h-1.6z`;
    }
    return path;
  };

  const clipped = (id, area, drawn) => {
    const clip = document.createElementNS("http://www.w3.org/2000/svg", "clipPath");
    clip.id = id;
    clip.append(make("path", { d: area }));
    return [clip, make("g", { "clip-path": `url(#${id})` }, drawn)];
  };

  const ticks = (low, high) => {
    const rough = (high - low) / 5;
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 2.5, 5, 10].map((k) => k * power).find((k) => k >= rough * 0.999);
    const found = [];
    for (let k = Math.ceil(low / step); k * step <= high; k++) found.push(k * step);
    return found;
  };

  const mark = (kind, label, x, y, title) => {
    const safe = ["robust", "resilient"].includes(data.kinds[kind][0]);
    const d = `M${x - 4} ${y - 4}l8 8m0 -8l-8 8`;
    const shape = safe
      ? make("circle", { class: "point", cx: x, cy: y, r: 3.8, fill: hue(label) })
      : make("g", {}, make("path", { class: "halo", d }), make("path", { class: "cross", stroke: hue(label), d }));
    shape.append(make("title", {}, title));
    return shape;
  };

  const axes = (shown, names) => {
    const parts = [];
    const px = (v) => BOX.left + ((v - shown.low[0]) / (shown.high[0] - shown.low[0])) * BOX.width;
    const py = (v) => BOX.top + BOX.height - ((v - shown.low[1]) / (shown.high[1] - shown.low[1])) * BOX.height;
    for (const v of ticks(shown.low[0], shown.high[0])) {
      parts.push(make("text", { class: "tick", x: px(v), y: BOX.top + BOX.height + 18, "text-anchor": "middle" }, short(v)));
    }
    for (const v of ticks(shown.low[1], shown.high[1])) {
      parts.push(make("text", { class: "tick", x: BOX.left - 6, y: py(v) + 4, "text-anchor": "end" }, short(v)));
    }
    const middle = BOX.top + BOX.height / 2;
    parts.push(make("text", { class: "name", x: BOX.left + BOX.width / 2, y: BOX.top + BOX.height + 42, "text-anchor": "middle" }, names[0]));
    parts.push(make("text", { class: "name", x: 12, y: middle, "text-anchor": "middle", transform: `rotate(-90 12 ${middle})` }, names[1]));
    parts.push(make("rect", { class: "frame", x: BOX.left, y: BOX.top, width: BOX.width, height: BOX.height }));
    return { parts, px, py };
  };

  const showSlice = () => {
    const slices = data.slices;
    const [x, y] = [Number(byId("slice-x").value), Number(byId("slice-y").value)];
    const through = Number(byId("slice-row").value);
    const picture = byId("slice-picture");
    const straight = slices.cuts[`${through}/${x}/${y}`];
    const cut = straight || slices.cuts[`${through}/${y}/${x}`];
    picture.replaceChildren();
    if (!cut) {
      byId("slice-note").textContent = "There was no time for this slice.";
      return;
    }
    const n = cut.n;
    const shown = unpack(cut, n, !straight);
    const names = [data.names[x], data.names[y]];
    data.classes.forEach((_, k) => {
      const d = squares(shown.codes, n, (code) => Math.floor(code / 3) === k);
      if (d) picture.append(make("path", { d, fill: hue(k), "fill-opacity": "var(--fill)" }));
    });
    const unstable = squares(shown.codes, n, (code) => code % 3 === REFUTED);
    const open = squares(shown.codes, n, (code) => code % 3 === UNKNOWN);
    if (unstable) picture.append(...clipped("unstable", unstable, make("path", { class: "hatch", d: hatching() })));
    if (open) picture.append(...clipped("open", open, make("path", { class: "speck", d: specks() })));
    picture.append(make("path", { class: "boundary", d: boundary(shown.codes, n) }));
    const { parts, px, py } = axes(shown, names);
    picture.append(...parts);
    const [ix, iy] = [slices.features.indexOf(x) + 3, slices.features.indexOf(y) + 3];
    for (const point of slices.points) {
      const [row, label, kind] = point;
      if (point[ix] === null || point[iy] === null) continue;
      const title = `row ${row}: ${data.classes[label]}, ${data.kinds[kind][1].toLowerCase()}`;
      picture.append(mark(kind, label, px(point[ix]), py(point[iy]), title));
    }
    const at = slices.at[through];
    const [vx, vy] = [at[ix - 3], at[iy - 3]];
    if (vx !== null && vy !== null) picture.append(make("circle", { class: "through", cx: px(vx), cy: py(vy), r: 9 }));
    const share = (part) => `${((100 * part) / (n * n)).toFixed(1)} %`;
    const undecided = n * n - cut.stable - cut.unstable;
    const note = `${n} × ${n} squares: ${share(cut.stable)} are proved stable, ${share(cut.unstable)} contain an unstable point` +
      (undecided ? `, ${share(undecided)} were not decided.` : ".");
    byId("slice-note").textContent = note;
    picture.setAttribute("aria-label", `Plane of ${names[0]} and ${names[1]} through row ${slices.through[through]}. ${note}`);
    showLegend(open !== "");
  };

  const showLegend = (open) => {
    const entry = (text, ...drawn) => make("li", {}, make("svg", { viewBox: "0 0 26 18", "aria-hidden": "true" }, ...drawn), text);
    const frame = () => make("rect", { class: "frame", x: 1, y: 1, width: 24, height: 16 });
    const kinds = data.classes.slice(0, 12).map((label, k) =>
      entry(`label ${label}`, make("rect", { x: 1, y: 1, width: 24, height: 16, fill: hue(k), "fill-opacity": "var(--fill)" }),
        make("circle", { cx: 13, cy: 9, r: 3.8, fill: hue(k) })));
    const rest = [
      entry("proved stable throughout", frame()),
      entry("contains an unstable point", frame(), make("path", { class: "hatch", d: "M1 8l7 -7M1 15l14 -14M6 17l16 -16M13 17l12 -12M20 17l5 -5" })),
      ...(open ? [entry("not decided in time", frame(), make("path", { class: "speck", d: "M6 6h2v2h-2zM14 6h2v2h-2zM10 11h2v2h-2zM18 11h2v2h-2z" }))] : []),
      entry("decision boundary", make("path", { class: "boundary", d: "M1 9h24" })),
      entry("test row, robust or resilient", make("circle", { cx: 13, cy: 9, r: 3.8, fill: "var(--soft)" })),
      entry("test row, any other verdict", make("path", { d: "M9 5l8 8m0 -8l-8 8", stroke: "var(--soft)", "stroke-width": 2.2 })),
      entry("row that the plane goes through", make("circle", { class: "through", cx: 13, cy: 9, r: 7 })),
    ];
    byId("slice-legend").replaceChildren(make("ul", {}, ...kinds, ...rest));
  };

  const startSlices = () => {
    const slices = data.slices;
    if (!slices || !Object.keys(slices.cuts).length) return;
    byId("slice-box").hidden = false;
    const [x, y] = [byId("slice-x"), byId("slice-y")];
    for (const select of [x, y]) select.append(...slices.features.map((feature) => option(feature, data.names[feature])));
    byId("slice-row").append(...slices.through.map((row, k) => option(k, `row ${row} (${slices.kinds[k]})`)));
    byId("slice-row").value = slices.start[0];
    [x.value, y.value] = slices.start.slice(1);
    const keepApart = (changed, other) => {
      if (changed.value === other.value) other.selectedIndex = changed.selectedIndex === 0 ? 1 : 0;
      showSlice();
    };
    x.addEventListener("change", () => keepApart(x, y));
    y.addEventListener("change", () => keepApart(y, x));
    byId("slice-row").addEventListener("change", showSlice);
    showSlice();
  };

  startTable();
  startSlices();
})();
