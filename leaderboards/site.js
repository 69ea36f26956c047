"use strict";
// Boards: headers sort, controls filter, boxes choose; all of it lives in the address after "#".
const board = (() => {
  const tables = [...document.querySelectorAll("table.board")];
  const controls = [...document.querySelectorAll("[data-filter]")];
  const shown = document.getElementById("shown");
  const order = new Map(tables.map((table) => [table, [...table.tBodies[0].rows]]));
  const sorted = new Map(); // group -> [column, direction]
  const whole = new Set(); // groups of which all rows are shown
  const MOST = 100; // rows of a group that are laid out before all are asked for
  let anchor = "";

  const value = (row, index) => row.cells[index].dataset.sort ?? "";
  const compare = (a, b, isNumber) =>
    isNumber ? Number(a) - Number(b) : a.localeCompare(b, "en", { numeric: true });

  function sort(table, column, direction) {
    const heads = [...table.tHead.rows[0].cells];
    const head = heads.find((cell) => cell.dataset.column === column);
    if (!head) return;
    const isNumber = head.classList.contains("number");
    const sign = direction === "descending" ? -1 : 1;
    const rows = [...order.get(table)].sort((first, second) => {
      const [a, b] = [value(first, head.cellIndex), value(second, head.cellIndex)];
      if (a === "" || b === "") return (a === "") - (b === "");
      return compare(a, b, isNumber) * sign;
    });
    for (const other of heads) other.setAttribute("aria-sort", "none");
    head.setAttribute("aria-sort", direction);
    table.tBodies[0].replaceChildren(...rows);
    sorted.set(table.dataset.key, [column, direction]);
  }

  function filter() {
    const wanted = Object.fromEntries(controls.map((c) => [c.dataset.filter, c.value]));
    const words = (wanted.q ?? "").toLowerCase().split(/\s+/).filter(Boolean);
    const passes = (row) => {
      const text = words.length ? row.cells[0].textContent.toLowerCase() : "";
      return (
        words.every((word) => text.includes(word)) &&
        ["tier", "dtype", "backend"].every((n) => !wanted[n] || row.dataset[n] === wanted[n])
      );
    };
    let [seen, found, all] = [0, 0, 0];
    for (const table of tables) {
      const most = whole.has(table.dataset.key) ? Infinity : MOST;
      let here = 0;
      for (const row of table.tBodies[0].rows) {
        const is = passes(row);
        row.hidden = !is || here >= most;
        here += is;
        all += 1;
      }
      seen += Math.min(here, most);
      found += here;
      const section = table.closest("section");
      const more = section.querySelector("[data-all]");
      section.querySelector(".scroll").hidden = here === 0;
      section.querySelector(".none").hidden = here !== 0;
      more.hidden = here <= most;
      more.textContent = `Show all ${here}`;
    }
    if (!shown) return;
    const rest = found > seen ? `; ${found} pass the filters` : "";
    shown.textContent = seen === all ? `${all} shown` : `${seen} of ${all} shown${rest}`;
  }

  const chosen = (table) =>
    [...table.querySelectorAll("input:checked")].map((box) => box.value);

  function offer() {
    for (const table of tables) {
      const models = chosen(table);
      const link = table.closest("section").querySelector("[data-compare]");
      const place = new URLSearchParams({ group: table.dataset.key, models: models.join(",") });
      link.href = `../compare.html#${place}`;
      link.hidden = models.length < 2;
      link.textContent = `Compare ${models.length} chosen`;
    }
  }

  function write() {
    const state = new URLSearchParams();
    if (anchor) state.set("at", anchor);
    for (const control of controls) if (control.value) state.set(control.dataset.filter, control.value);
    for (const group of whole) state.append("all", group);
    for (const [group, how] of sorted) state.append("sort", [group, ...how].join(":"));
    for (const table of tables)
      if (chosen(table).length) state.append("pick", `${table.dataset.key}:${chosen(table).join(",")}`);
    history.replaceState(null, "", `#${state}`);
  }

  function read() {
    const hash = location.hash.slice(1);
    if (!hash.includes("=")) {
      anchor = hash;
      return;
    }
    const state = new URLSearchParams(hash);
    const table = (key) => tables.find((one) => one.dataset.key === key);
    for (const control of controls) control.value = state.get(control.dataset.filter) ?? "";
    for (const control of controls)
      if (control.selectedIndex === -1) control.value = "";
    whole.clear();
    for (const key of state.getAll("all")) if (table(key)) whole.add(key);
    for (const text of state.getAll("sort")) {
      const [key, column, direction] = text.split(":");
      if (table(key) && /^(a|de)scending$/.test(direction)) sort(table(key), column, direction);
    }
    for (const text of state.getAll("pick")) {
      const cut = text.indexOf(":");
      const models = new Set(text.slice(cut + 1).split(","));
      for (const box of table(text.slice(0, cut))?.querySelectorAll("input") ?? [])
        box.checked = models.has(box.value);
    }
    anchor = state.get("at") ?? "";
    document.getElementById(anchor)?.scrollIntoView();
  }

  function start() {
    if (!tables.length) return;
    read();
    filter();
    offer();
    for (const table of tables) {
      table.tHead.addEventListener("click", (event) => {
        const head = event.target.closest("button")?.parentElement;
        if (!head) return;
        const first = head.dataset.first ?? "ascending";
        const other = first === "ascending" ? "descending" : "ascending";
        sort(table, head.dataset.column, head.getAttribute("aria-sort") === first ? other : first);
        filter();
        write();
      });
      table.closest("section").querySelector("[data-all]").addEventListener("click", () => {
        whole.add(table.dataset.key);
        filter();
        write();
        table.closest(".scroll").focus(); // the button is gone
      });
      table.tBodies[0].addEventListener("change", () => (offer(), write()));
    }
    for (const control of controls) control.addEventListener("input", () => (filter(), write()));
    document.getElementById("clear").addEventListener("click", () => {
      for (const control of controls) control.value = "";
      filter();
      write();
    });
    window.addEventListener("hashchange", () => (read(), filter(), offer(), write()));
  }
  return { start };
})();
board.start();
