for (const button of document.querySelectorAll("th[aria-sort] button")) {
  button.addEventListener("click", () => {
    const header = button.closest("th");
    const table = header.closest("table");
    const column = [...header.parentNode.children].indexOf(header);
    const value = (row) => row.children[column].dataset.value ?? row.children[column].textContent;
    const isNumber = header.classList.contains("number");
    // Numbers from the largest first, names from A; then the other way round.
    const first = isNumber ? "descending" : "ascending";
    const other = isNumber ? "ascending" : "descending";
    const order = header.getAttribute("aria-sort") === first ? other : first;
    for (const each of header.parentNode.children) {
      if (each.hasAttribute("aria-sort")) each.setAttribute("aria-sort", "none");
    }
    header.setAttribute("aria-sort", order);
    const sign = order === "ascending" ? 1 : -1;
    const compare = isNumber
      ? (a, b) => sign * (Number(value(a)) - Number(value(b)))
      : (a, b) => sign * value(a).localeCompare(value(b));
    const body = table.tBodies[0];
    body.append(...[...body.rows].sort(compare));
  });
}
