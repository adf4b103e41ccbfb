// What a Persian reader sees, measured in the page: each check returns one line for each fault.
// `prose` elements hold the Persian Markdown of one cell each; `column` is where figures must fit.
(prose, column) => {
  const BLOCKS = "p, li, h1, h2, h3, h4, h5, h6, td, th, dt, dd, summary, div";
  const FORMULAS = "math, mjx-container";
  const SPOKEN = "mjx-assistive-mml";
  // What sets its parts side by side, in MathML and as MathJax draws it; a fraction does not.
  const ROWS = ["", "mjx-"].flatMap((kind) =>
    ["math", "mrow", "mstyle", "texatom", "msup", "msub", "msqrt", "mi", "mn", "mo", "mtext"]
      .map((name) => kind + name)).join(", ");
  // What is folded away is opened to be measured.
  for (const details of document.querySelectorAll("details")) details.open = true;
  const roots = [...document.querySelectorAll(prose)].filter((root) => root.offsetParent);
  const all = (selector) => roots.flatMap((root) => [...root.querySelectorAll(selector)]);
  const boxOf = (element) => element.getBoundingClientRect();
  const excerpt = (node) => node.textContent.trim().replace(/\s+/g, " ").slice(0, 60);

  const rectOf = (node, place) => {
    const range = document.createRange();
    range.setStart(node, place);
    range.setEnd(node, place + 1);
    return range.getClientRects()[0];
  };

  // The characters of an element that take room, as {node, char, rect}.
  const characters = (element, without = FORMULAS) => {
    const walker = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
    const found = [];
    while (walker.nextNode()) {
      const node = walker.currentNode;
      if (node.parentElement.closest(without)) continue;
      for (let place = 0; place < node.length; place += 1) {
        const rect = /\s/.test(node.data[place]) ? null : rectOf(node, place);
        if (rect && rect.width) found.push({ node, char: node.data[place], rect });
      }
    }
    return found;
  };

  const middle = (rect) => (rect.top + rect.bottom) / 2;
  const sameLine = (one, other) => middle(other) > one.top && middle(other) < one.bottom;

  // A block's own text: not that of a block inside it.
  const ownCharacters = (block) =>
    characters(block).filter(({ node }) => node.parentElement.closest(BLOCKS) === block &&
      !node.parentElement.closest("pre"));

  const blocks = all(BLOCKS)
    .map((block) => ({ block, text: ownCharacters(block) }))
    .filter(({ text }) => text.length);

  const formulas = all(FORMULAS).filter((formula) => !formula.closest(SPOKEN));

  const rightEdge = (block) => {
    const style = getComputedStyle(block);
    const taken = parseFloat(style.paddingRight) + parseFloat(style.borderRightWidth);
    return boxOf(block).right - taken;
  };

  // Code has padding of its own between its text and the edge.
  const rightOf = ({ node, rect }) =>
    rect.right + (node.parentElement.localName === "code" ? 1 : 0) *
      parseFloat(getComputedStyle(node.parentElement).paddingRight);

  const runsBackwards = (rects) =>
    rects.some((rect, i) => i && sameLine(rects[i - 1], rect) && rect.left < rects[i - 1].left - 0.5);

  const formulaRunsBackwards = (formula) =>
    [formula, ...formula.querySelectorAll("*")]
      .filter((part) => part.matches(ROWS) && !part.closest(SPOKEN))
      .some((part) => {
        const boxes = [...part.children].map(boxOf).filter((box) => box.width);
        const letters = part.children.length ? [] : characters(part, "no-such-element");
        const ordered = (lefts) => lefts.every((left, i) => !i || left >= lefts[i - 1] - 0.5);
        return !ordered(boxes.map(({ left }) => left)) || runsBackwards(letters.map(({ rect }) => rect));
      });

  return {
    cells: roots.length,
    code: all("code, pre")
      .filter((code) => runsBackwards(characters(code).map(({ rect }) => rect)))
      .map((code) => `code does not run left to right: ${excerpt(code)}`),
    formulas: formulas
      .filter(formulaRunsBackwards)
      .map((formula) => `a formula does not run left to right: ${excerpt(formula)}`),
    direction: blocks
      .filter(({ block }) => getComputedStyle(block).direction !== "rtl")
      .map(({ block }) => `direction is not rtl: ${excerpt(block)}`),
    alignment: blocks
      .filter(({ block, text }) => {
        const line = text.filter(({ rect }) => sameLine(text[0].rect, rect));
        // A summary opens with the triangle that unfolds it.
        const allowed = block.localName === "summary" ? 32 : 2;
        return Math.abs(Math.max(...line.map(rightOf)) - rightEdge(block)) > allowed;
      })
      .map(({ block }) => `not aligned to the right: ${excerpt(block)}`),
    punctuation: blocks
      .filter(({ block, text }) => {
        const last = text.at(-1);
        if (!/[.؟!؛:،…»)]/.test(last.char) || last.node.parentElement.closest("code")) return false;
        const within = formulas.filter((formula) => block.contains(formula));
        const line = [...text.map(({ rect }) => rect), ...within.map(boxOf)]
          .filter((rect) => sameLine(last.rect, rect));
        return last.rect.left > Math.min(...line.map(({ left }) => left)) + 0.5;
      })
      .map(({ block }) => `closing punctuation is not left-most: ${excerpt(block)}`),
    tables: all("table")
      .filter((table) => {
        const cells = [...table.rows[0].cells].map((cell) => boxOf(cell).left);
        const start = boxOf(table.parentElement).right;
        const backwards = cells.some((left, i) => i && left > cells[i - 1]);
        return backwards || Math.abs(boxOf(table).right - start) > 2;
      })
      .map((table) => `a table does not start at the right: ${excerpt(table)}`),
    figures: [...document.querySelectorAll(`${column} img`)]
      .filter((image) => image.offsetParent)
      .filter((image) => {
        const room = boxOf(image.closest(column));
        const box = boxOf(image);
        return !image.complete || !box.width || box.left < room.left - 1 || box.right > room.right + 1;
      })
      .map((image) => `a figure is empty or wider than its column: ${image.alt.slice(0, 60)}`),
    measured: { code: all("code").length, formulas: formulas.length, blocks: blocks.length },
  };
}
