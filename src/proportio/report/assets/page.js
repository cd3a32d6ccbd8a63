"use strict";
for (const button of document.querySelectorAll("thead button")) {
  button.addEventListener("click", () => {
    const head = button.closest("th"), heads = [...head.parentNode.children], body = head.closest("table").tBodies[0];
    const k = heads.indexOf(head), down = head.getAttribute("aria-sort") !== "descending" && k > 0
      || head.getAttribute("aria-sort") === "ascending";
    for (const other of heads) if (other.hasAttribute("aria-sort")) other.setAttribute("aria-sort", "none");
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    const value = (row) => row.cells[k].dataset.value ?? row.cells[k].textContent;
    const compare = (a, b) => {
      const x = parseFloat(value(a)), y = parseFloat(value(b));
      return isNaN(x) || isNaN(y) ? value(a).localeCompare(value(b), undefined, { numeric: true }) : x - y;
    };
    body.append(...[...body.rows].sort((a, b) => (down ? -1 : 1) * compare(a, b)));
  });
}
const tip = document.getElementById("tip");
document.addEventListener("pointermove", (event) => {
  const owner = event.target.closest("[data-tip]");
  tip.hidden = !owner;
  if (!owner) return;
  tip.textContent = owner.dataset.tip;
  tip.style.left = `${Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8)}px`;
  tip.style.top = `${Math.min(event.clientY + 18, innerHeight - tip.offsetHeight - 8)}px`;
});
