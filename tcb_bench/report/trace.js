"use strict";
// Hovering or focusing a token shows its numbers; the list chooses what the colours mean.
(() => {
  const tokens = [...document.querySelectorAll("#tokens > span")];
  const places = [...document.querySelectorAll("#numbers dd")];
  const by = document.getElementById("by");
  let shown = null;
  const show = (token) => {
    if (!token || token === shown) return;
    if (shown) {
      shown.classList.remove("shown");
      shown.setAttribute("aria-selected", "false");
      shown.tabIndex = -1;
    }
    shown = token;
    token.classList.add("shown");
    token.setAttribute("aria-selected", "true");
    token.tabIndex = 0;
    JSON.parse(token.dataset.numbers).forEach((number, i) => { places[i].textContent = number; });
  };
  const go = (event) => {
    const at = tokens.indexOf(document.activeElement);
    const steps = { ArrowRight: at + 1, ArrowDown: at + 1, ArrowLeft: at - 1, ArrowUp: at - 1, Home: 0, End: tokens.length - 1 };
    if (at < 0 || !(event.key in steps)) return;
    event.preventDefault();
    tokens[Math.min(tokens.length - 1, Math.max(0, steps[event.key]))].focus();
  };
  const list = document.getElementById("tokens");
  list.addEventListener("mouseover", (event) => show(event.target.closest("[role=option]")));
  list.addEventListener("focusin", (event) => show(event.target.closest("[role=option]")));
  list.addEventListener("keydown", go);
  const colour = () => {
    for (const token of tokens) {
      const level = token.dataset.levels.split(" ")[by.selectedIndex];
      token.className = token.className.replace(/\bl\d\b/, `l${level}`);
    }
  };
  by.addEventListener("change", colour);
  colour(); // a browser may have kept the choice
})();
