"use strict";
// Headers sort their table: numbers by value, the rest as text; cells without a value stay last.
(() => {
  const value = (row, column) => row.cells[column].dataset.sort ?? "";
  const compare = (a, b, isNumber) =>
    isNumber ? Number(a) - Number(b) : a.localeCompare(b, "en", { numeric: true });
  const sort = (header) => {
    const table = header.closest("table");
    const column = header.cellIndex;
    const isNumber = header.classList.contains("number");
    const isRising = header.getAttribute("aria-sort") !== "ascending";
    const rows = [...table.tBodies[0].rows];
    rows.sort((first, second) => {
      const [a, b] = [value(first, column), value(second, column)];
      if (a === "" || b === "") return (a === "") - (b === "");
      return compare(a, b, isNumber) * (isRising ? 1 : -1);
    });
    for (const other of table.tHead.rows[0].cells) other.setAttribute("aria-sort", "none");
    header.setAttribute("aria-sort", isRising ? "ascending" : "descending");
    table.tBodies[0].append(...rows);
  };
  for (const button of document.querySelectorAll("th > button"))
    button.addEventListener("click", () => sort(button.parentElement));
})();
