// The page that compares: numbers of the chosen models side by side, and their curves in one plot.
(() => {
  const source = document.getElementById("data");
  if (!source) return;
  const data = JSON.parse(source.textContent);
  const find = (id) => document.getElementById(id);
  const groups = data.boards.flatMap((board) => board.groups.map((group) => ({ ...group, board })));
  const LOOKS = 8;
  const WIDTH = 360, HEIGHT = 250, LEFT = 58, RIGHT = 10, TOP = 12, BOTTOM = 40;
  let group = null;
  let chosen = [];

  const make = (name, text, attributes = {}) => {
    const node = document.createElement(name);
    if (text !== undefined) node.textContent = text;
    for (const [key, own] of Object.entries(attributes)) node.setAttribute(key, own);
    return node;
  };
  const draw = (name, attributes, text) => {
    const node = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, own] of Object.entries(attributes)) node.setAttribute(key, own);
    if (text !== undefined) node.textContent = text;
    return node;
  };
  const show = (number, digits) => {
    if (number === null) return "\u2013";
    const small = number !== 0 && Math.abs(number) < 0.5 * 10 ** -digits;
    const text = small || Math.abs(number) >= 1e6 ? number.toExponential(1) : number.toFixed(digits);
    return text.replaceAll("-", "\u2212");
  };

  // The choice.
  function listGroups() {
    for (const board of data.boards) {
      const part = make("optgroup", undefined, { label: board.title });
      for (const one of groups.filter((g) => g.board === board))
        part.append(make("option", `${one.title} (${one.rows.length})`, { value: one.key }));
      find("group").append(part);
    }
  }
  function listModels() {
    const boxes = group.rows.map((row) => {
      const label = make("label");
      const box = make("input", undefined, { type: "checkbox", value: row.id });
      box.checked = chosen.includes(row.id);
      label.append(box, make("span", row.model), make("small", row.detail));
      return label;
    });
    find("models").replaceChildren(...boxes);
  }
  function narrow() {
    const words = find("find").value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const label of find("models").children) {
      const text = label.textContent.toLowerCase();
      label.hidden = !words.every((word) => text.includes(word));
    }
  }

  // The numbers.
  function head(rows) {
    const line = make("tr");
    line.append(make("th", "number", { scope: "col" }));
    rows.forEach((row, i) => {
      const cell = make("th", undefined, { scope: "col", class: "number" });
      cell.append(swatch(i), " ", make("a", row.model, { href: row.page }));
      line.append(cell);
    });
    return line;
  }
  function line(name, texts) {
    const row = make("tr");
    row.append(make("th", name, { scope: "row" }));
    for (const lines of texts) {
      const cell = make("td", undefined, { class: "number" });
      lines.filter(Boolean).forEach((text, i) => cell.append(make(i ? "small" : "b", text), make("br")));
      row.append(cell);
    }
    return row;
  }
  function numbers(rows) {
    const lines = group.board.columns.map((column, i) => {
      const name = `${column.label} (${column.hint})`;
      return line(name, rows.map((row) => {
        const [value, low, high, n, from, to, reason] = row.cells[i];
        const base = rows[0].cells[i][0];
        const ends = low === null || high === null ? "" :
          `${show(low, column.digits)} to ${show(high, column.digits)}${n === null ? "" : `, n ${n}`}`;
        const rank = from === null ? "" : `rank ${from === to ? from : `${from}\u2013${to}`}`;
        const step = row === rows[0] || value === null || base === null ? "" :
          `${value >= base ? "+" : ""}${show(value - base, column.digits)} to the first`;
        return [show(value, column.digits), ends, rank, step, reason];
      }));
    });
    const facts = line("made with", rows.map((row) => ["", row.tier, row.detail]));
    const top = make("thead");
    top.append(head(rows));
    const body = make("tbody");
    body.append(...lines, facts);
    find("table").replaceChildren(make("caption", `${group.board.title}, ${group.title}`, { class: "unseen" }), top, body);
  }

  // The plots.
  const MARKS = [
    "m-3.2 0a3.2 3.2 0 1 0 6.4 0a3.2 3.2 0 1 0-6.4 0", "m-3-3h6v6h-6z", "m0-3.6l3.6 7h-7.2z",
    "m0-3.8l3.8 3.8l-3.8 3.8l-3.8-3.8z", "m0 3.6l3.6-7h-7.2z", "m-3.2 0h6.4m-3.2-3.2v6.4",
    "m-3-3l6 6m-6 0l6-6", "m-3.2 0h6.4",
  ];
  function swatch(i) {
    const svg = draw("svg", { class: `swatch s${i % LOOKS}`, viewBox: "0 0 28 12", "aria-hidden": "true" });
    svg.append(draw("path", { class: "line", d: "M1 6H27" }), draw("path", { class: "mark", d: `M14 6${MARKS[i % LOOKS]}` }));
    return svg;
  }
  function ticks(low, high) {
    if (!(high > low)) [low, high] = [low - 0.5, high + 0.5];
    const raw = (high - low) / 5;
    const base = 10 ** Math.floor(Math.log10(raw));
    const step = [1, 2, 5, 10].map((m) => m * base).find((own) => own >= raw * 0.999);
    const found = [];
    for (let i = Math.floor(low / step + 1e-9); i <= Math.ceil(high / step - 1e-9); i += 1)
      found.push(Number((i * step).toPrecision(12)));
    return found;
  }
  function scales(panels) {
    const points = panels.flatMap(({ lines }) => lines.flatMap((own) => own.points));
    const heights = points.flatMap((p) => p.slice(1)).filter((v) => v !== null && v !== undefined);
    const places = points.map((p) => p[0]);
    if (!heights.length) return null;
    return [
      ticks(Math.min(...places), Math.max(...places)),
      ticks(Math.min(...heights), Math.max(...heights)),
    ];
  }
  function plot(title, xLabel, yLabel, lines, [xs, ys]) {
    const x = (v) => LEFT + ((v - xs[0]) / (xs.at(-1) - xs[0])) * (WIDTH - RIGHT - LEFT);
    const y = (v) => HEIGHT - BOTTOM - ((v - ys[0]) / (ys.at(-1) - ys[0])) * (HEIGHT - BOTTOM - TOP);
    const svg = draw("svg", { class: "plot", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": `${title}. Numbers in the table beneath.` });
    for (const v of ys)
      svg.append(draw("path", { class: "grid", d: `M${LEFT} ${y(v)}H${WIDTH - RIGHT}` }), draw("text", { x: LEFT - 6, y: y(v) + 3.5, "text-anchor": "end" }, String(v).replace("-", "\u2212")));
    for (const v of xs)
      svg.append(draw("text", { x: x(v), y: HEIGHT - BOTTOM + 15, "text-anchor": "middle" }, String(v).replace("-", "\u2212")));
    const middle = (TOP + HEIGHT - BOTTOM) / 2;
    svg.append(
      draw("path", { class: "axis", d: `M${LEFT} ${HEIGHT - BOTTOM}H${WIDTH - RIGHT}` }),
      draw("text", { class: "label", x: (LEFT + WIDTH - RIGHT) / 2, y: HEIGHT - 6, "text-anchor": "middle" }, xLabel),
      draw("text", { class: "label", "text-anchor": "middle", transform: `translate(11 ${middle}) rotate(-90)` }, yLabel),
    );
    for (const own of lines) {
      const known = own.points.filter((p) => p[1] !== null);
      const banded = known.filter((p) => p[2] !== null && p[2] !== undefined);
      const at = (p, i) => `${x(p[0]).toFixed(1)} ${y(p[i]).toFixed(1)}`;
      const set = draw("g", { class: `s${own.look % LOOKS}` });
      if (banded.length > 1)
        set.append(draw("path", { class: "band", d: `M${[...banded.map((p) => at(p, 3)), ...banded.map((p) => at(p, 2)).reverse()].join("L")}z` }));
      if (known.length) set.append(draw("path", { class: "line", d: `M${known.map((p) => at(p, 1)).join("L")}` }));
      set.append(draw("path", { class: "mark", d: known.map((p) => `M${at(p, 1)}${MARKS[own.look % LOOKS]}`).join("") }));
      svg.append(set);
    }
    return svg;
  }
  function table(title, xLabel, lines, digits) {
    const places = [...new Set(lines.flatMap((own) => own.points.map((p) => p[0])))].sort((a, b) => a - b);
    const box = make("details");
    const region = make("div", undefined, { class: "scroll", tabindex: "0", role: "region", "aria-label": `Numbers: ${title}` });
    const sheet = make("table", undefined, { class: "plain" });
    const top = make("thead");
    const heads = make("tr");
    heads.append(make("th", xLabel, { scope: "col" }), ...lines.map((own) => make("th", own.name, { scope: "col" })));
    top.append(heads);
    const body = make("tbody");
    for (const place of places) {
      const row = make("tr");
      row.append(make("th", show(place, 2), { scope: "row" }));
      for (const own of lines) {
        const point = own.points.find((p) => p[0] === place);
        const ends = point && point[2] !== null && point[2] !== undefined ? ` (${show(point[2], digits)} to ${show(point[3], digits)})` : "";
        row.append(make("td", point ? show(point[1], digits) + ends : "\u2013"));
      }
      body.append(row);
    }
    sheet.append(make("caption", title, { class: "unseen" }), top, body);
    region.append(sheet);
    box.append(make("summary", "Numbers of this figure"), region);
    return box;
  }
  function figure(title, panels, digits) {
    const box = make("figure", undefined, { class: "wide" });
    const axes = scales(panels);
    if (!axes) return box;
    const legend = make("ul", undefined, { class: "legend" });
    const lines = panels[0].lines;
    for (const own of lines) {
      const item = make("li");
      item.append(swatch(own.look), ` ${own.name}`);
      legend.append(item);
    }
    const plates = make("div", undefined, { class: "panels" });
    for (const { name, x, y, lines: drawn } of panels) {
      const svg = plot(name || title, x, y, drawn, axes);
      const plate = make("div", undefined, { class: "panel" });
      if (name) plate.append(make("h4", name));
      plate.append(svg, table(name || title, x, drawn, digits));
      plates.append(plate);
    }
    box.append(make("h3", title), legend, plates);
    return box;
  }
  function plots(rows) {
    const found = [];
    const swept = rows.map((row, look) => ({ row, look })).filter(({ row }) => row.curves);
    if (swept.length) {
      const { score, x } = swept[0].row.curves;
      const names = [...new Set(swept.flatMap(({ row }) => Object.keys(row.curves.lines)))];
      const panels = names.map((name) => ({
        name, x, y: score,
        lines: swept.map(({ row, look }) => ({ name: row.model, look, points: row.curves.lines[name] ?? [] })),
      }));
      found.push(figure(`Quality over ${x}`, panels, 3));
    }
    const spread = rows.map((row, look) => ({ row, look })).filter(({ row }) => row.bins);
    if (spread.length) {
      const lines = spread.map(({ row, look }) => ({
        name: row.model, look,
        points: row.bins.shares.map((share, i) => [(row.bins.first + i + 0.5) * data.bin, share]),
      }));
      const panel = { name: "", x: "log10 relative_delta", y: "share of responses", lines };
      found.push(figure("Distribution of log10 relative_delta", [panel], 3));
    }
    find("plots").replaceChildren(...found);
  }

  // The address.
  function write() {
    history.replaceState(null, "", `#${new URLSearchParams({ group: group.key, models: chosen.join(",") })}`);
  }
  function read() {
    const state = new URLSearchParams(location.hash.slice(1) || location.search);
    const models = (state.get("models") ?? "").split(",").filter(Boolean);
    const holds = (one) => models.some((name) => one.rows.some((row) => name === row.id || name === row.model));
    const wanted = groups.find((one) => one.key === state.get("group"));
    group = wanted ?? groups.find((one) => models.length && holds(one)) ?? groups.reduce((a, b) => (b.rows.length > a.rows.length ? b : a));
    chosen = models.map((name) => group.rows.find((row) => name === row.id || name === row.model)?.id).filter(Boolean);
    find("group").value = group.key;
    listModels();
    narrow();
  }
  function tell() {
    const rows = chosen.map((id) => group.rows.find((row) => row.id === id));
    find("result").hidden = rows.length < 2;
    find("said").textContent = rows.length < 2 ?
      `${rows.length} chosen; choose at least two.` : `${rows.length} models compared.`;
    if (rows.length < 2) return;
    numbers(rows);
    plots(rows);
  }
  if (!groups.length) {
    find("said").textContent = "There are no entries yet.";
    return;
  }
  listGroups();
  read();
  tell();
  find("group").addEventListener("change", () => {
    group = groups.find((one) => one.key === find("group").value);
    chosen = [];
    find("find").value = "";
    listModels();
    write();
    tell();
  });
  find("find").addEventListener("input", narrow);
  find("models").addEventListener("change", (event) => {
    const { value, checked } = event.target;
    chosen = checked ? [...chosen, value] : chosen.filter((id) => id !== value);
    write();
    tell();
  });
  window.addEventListener("hashchange", () => (read(), tell()));
})();
