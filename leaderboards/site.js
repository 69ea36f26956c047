"use strict";
// Boards: headers sort, controls filter, boxes choose; all of it lives in the address after "#".
const board = (() => {
  const tables = [...document.querySelectorAll("table.board")];
  const controls = [...document.querySelectorAll("[data-filter]")];
  const shown = document.getElementById("shown");
  const order = new Map(tables.map((table) => [table, [...table.tBodies[0].rows]]));
  const sorted = new Map(); // group -> [column, direction]
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
    let seen = 0;
    let all = 0;
    for (const table of tables) {
      let here = 0;
      for (const row of order.get(table)) {
        const text = words.length ? row.cells[0].textContent.toLowerCase() : "";
        const passes =
          words.every((word) => text.includes(word)) &&
          ["tier", "dtype", "backend"].every((n) => !wanted[n] || row.dataset[n] === wanted[n]);
        row.hidden = !passes;
        here += passes;
        all += 1;
      }
      seen += here;
      const section = table.closest("section");
      section.querySelector(".scroll").hidden = here === 0;
      section.querySelector(".none").hidden = here !== 0;
    }
    if (shown) shown.textContent = seen === all ? `${all} shown` : `${seen} of ${all} shown`;
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
        write();
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
