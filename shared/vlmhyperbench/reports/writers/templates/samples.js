// All samples: a table to search, filter, sort and page in the browser, with one open sample at a time.
(async () => {
  const PAGE = 15;
  const root = document.querySelector(".samples .browser");
  if (!root || typeof DecompressionStream === "undefined") return;
  const [table] = JSON.parse(await inflate("table"));
  const form = root.querySelector("form");
  const field = (name) => form.elements[name];
  const element = (tag, text = "", classes = "") => {
    const made = document.createElement(tag);
    made.textContent = text;
    made.className = classes;
    return made;
  };
  const option = (select, value, text) => {
    const made = element("option", text);
    made.value = value;
    select.append(made);
  };
  const number = (value, digits = 0) =>
    value === null || value === undefined
      ? "–"
      : value.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits }).replace(/,/g, "\u202f");
  const every = table.key.map((_, row) => row);
  const digits = table.metrics.map((_, i) => (table.scores.every((row) => Number.isInteger(row[i] ?? 0)) ? 0 : 3));
  const texts = every.map((row) =>
    [table.key[row], table.question[row], table.answer[row], table.parsed[row], ...table.references[row]]
      .join("\n").toLowerCase());
  const state = { page: 0, open: null, rows: every };

  const counted = (values) => {
    const counts = new Map();
    for (const value of values) counts.set(value, (counts.get(value) || 0) + 1);
    return [...counts].sort((a, b) => b[1] - a[1]);
  };
  const choices = (select, title, values) => {
    option(select, "", title);
    for (const [value, count] of counted(values)) {
      if (value !== null) option(select, value, `${value} (${number(count)})`);
    }
  };
  choices(field("outcome"), "Every outcome", table.outcome);
  const filters = table.groups.map((title, i) => [title, table.group_values.map((values) => values[i])]);
  if (table.runs.length > 1) filters.unshift(["run", table.run.map((run) => table.runs[run])]);
  const selects = filters.map(([title, values]) => {
    const select = document.createElement("select");
    select.setAttribute("aria-label", title);
    choices(select, `Every ${title}`, values);
    root.querySelector(".choices").append(select);
    return [select, values];
  });
  table.metrics.forEach((label, i) => option(field("metric"), i, label));
  root.querySelector(".range").hidden = table.metrics.length === 0;

  const columns = new Map([
    ...table.metrics.map((label, i) => [label, (row) => table.scores[row][i]]),
    ["latency", (row) => table.latency_ms[row]],
    ["tokens", (row) => table.tokens[row]],
  ]);
  option(field("sort"), "", "In the order asked");
  for (const name of columns.keys()) {
    option(field("sort"), `+${name}`, `${name}, lowest first`);
    option(field("sort"), `-${name}`, `${name}, highest first`);
  }

  // The table has the first two metrics; an open sample shows all of them.
  const shown = [...table.metrics.slice(0, 2), "latency", "tokens"];
  const heads = new Map();
  const head = root.querySelector("thead tr");
  for (const title of ["sample", ...(table.runs.length > 1 ? ["run"] : []), "outcome", "expected", "answered"]) {
    head.append(element("th", title));
  }
  for (const name of shown) {
    const th = element("th", "", "number");
    const button = element("button", name === "latency" ? "latency, ms" : name);
    button.type = "button";
    button.addEventListener("click", () => {
      field("sort").value = field("sort").value === `+${name}` ? `-${name}` : `+${name}`;
      find();
    });
    th.append(button);
    head.append(th);
    heads.set(name, th);
  }
  for (const th of head.children) th.scope = "col";

  const bound = (name) => (field(name).value === "" ? null : Number(field(name).value));
  const find = () => {
    const words = field("text").value.toLowerCase().split(/\s+/).filter(Boolean);
    const outcome = field("outcome").value;
    const chosen = selects.filter(([select]) => select.value !== "");
    const [low, high, metric] = [bound("low"), bound("high"), Number(field("metric").value)];
    const rows = every.filter((row) => {
      if (outcome && table.outcome[row] !== outcome) return false;
      if (!chosen.every(([select, values]) => values[row] === select.value)) return false;
      const score = table.scores[row][metric] ?? null;
      if ((low !== null || high !== null) && score === null) return false;
      if ((low !== null && score < low) || (high !== null && score > high)) return false;
      return words.every((word) => texts[row].includes(word));
    });
    const sort = field("sort").value;
    const value = columns.get(sort.slice(1));
    if (value) {
      const sign = sort[0] === "-" ? -1 : 1;
      // Rows without a value come last in either direction; rows with equal values keep their order.
      const keyed = rows.map((row) => [value(row) ?? null, row]);
      keyed.sort(([a], [b]) => (a === null ? (b === null ? 0 : 1) : b === null ? -1 : sign * (a - b)));
      rows.splice(0, rows.length, ...keyed.map(([, row]) => row));
    }
    for (const [name, th] of heads) {
      if (sort.slice(1) === name) th.setAttribute("aria-sort", sort[0] === "-" ? "descending" : "ascending");
      else th.removeAttribute("aria-sort");
    }
    Object.assign(state, { rows, page: 0, open: null });
    draw();
  };

  const fact = (list, name, content) => {
    if (content === null || content === "") return;
    const dd = document.createElement("dd");
    dd.append(content);
    list.append(element("dt", name), dd);
  };
  const pages = (row) => {
    const parts = document.createElement("div");
    for (const image of table.images[row]) {
      const src = pictures.get(image);
      if (src) {
        const button = element("button", "", "page");
        const picture = document.createElement("img");
        picture.alt = `Page of sample ${table.key[row]}`;
        picture.src = src;
        button.type = "button";
        button.append(picture);
        button.addEventListener("click", () => enlarge(image, src, picture.alt));
        parts.append(button);
      } else if (served) {
        const link = element("a", "Show the page");
        link.href = stored(image);
        parts.append(link);
      } else {
        parts.append(element("p", `The page is not in this file: image ${image.slice(0, 12)}…`, "nopage"));
      }
    }
    return parts;
  };
  const opened = (row, span) => {
    const tr = element("tr", "", "opened");
    const cell = document.createElement("td");
    const list = document.createElement("dl");
    cell.colSpan = span;
    fact(list, "question", table.question[row]);
    fact(list, "expected", table.references[row].length ? element("pre", table.references[row].join("\n")) : "no reference");
    fact(list, "answered", element("pre", table.answer[row] ?? "nothing"));
    fact(list, "read as", table.parsed[row] === null ? null : element("pre", table.parsed[row]));
    fact(list, "fields", table.fields[row]);
    table.metrics.forEach((label, i) => fact(list, label, number(table.scores[row][i], digits[i])));
    fact(list, "latency", table.latency_ms[row] === null ? null : `${number(table.latency_ms[row], 1)} ms`);
    fact(list, "output tokens", table.tokens[row] === null ? null : number(table.tokens[row]));
    table.groups.forEach((title, i) => fact(list, title, table.group_values[row][i]));
    fact(list, "note", table.note_of[row]);
    fact(list, "key", table.key[row]);
    const box = element("div", "", "sample");
    box.append(pages(row), list);
    cell.append(box);
    tr.append(cell);
    return tr;
  };
  const drawn = (row) => {
    const tr = document.createElement("tr");
    const name = document.createElement("th");
    const button = element("button", table.question[row] || table.key[row]);
    const isOpen = state.open === row;
    name.scope = "row";
    button.type = "button";
    button.title = table.key[row] ?? "";
    button.setAttribute("aria-expanded", String(isOpen));
    button.addEventListener("click", () => {
      state.open = isOpen ? null : row;
      draw();
      body.querySelectorAll("th button")[state.rows.slice(state.page * PAGE).indexOf(row)]?.focus();
    });
    name.append(button);
    tr.append(name);
    if (table.runs.length > 1) tr.append(element("td", table.runs[table.run[row]], "text"));
    const answered = element("td", "", "text");
    answered.append(element("span", table.answer[row] ?? "–", "clip"));
    const expected = element("td", "", "text");
    expected.append(element("span", table.references[row].join(" | ") || "–", "clip"));
    const outcome = document.createElement("td");
    const tone = table.outcome[row] === "right" ? " good" : ["scored", "not scored"].includes(table.outcome[row]) ? "" : " kind";
    outcome.append(element("span", table.outcome[row], `tag${tone}`));
    tr.append(outcome, expected, answered);
    shown.forEach((column) => {
      const i = table.metrics.indexOf(column);
      const after = i >= 0 ? digits[i] : column === "latency" ? 1 : 0;
      tr.append(element("td", number(columns.get(column)(row), after), "number"));
    });
    return tr;
  };
  const body = root.querySelector("tbody");
  const pager = root.querySelector(".pager");
  const draw = () => {
    const last = Math.max(0, Math.ceil(state.rows.length / PAGE) - 1);
    const rows = state.rows.slice(state.page * PAGE, (state.page + 1) * PAGE);
    body.replaceChildren(...rows.flatMap((row) =>
      row === state.open ? [drawn(row), opened(row, head.children.length)] : [drawn(row)]));
    root.querySelector(".found").textContent = `${number(state.rows.length)} of ${number(every.length)} samples`;
    pager.querySelector("span").textContent = `Page ${state.page + 1} of ${last + 1}`;
    for (const button of pager.querySelectorAll("button")) {
      const to = state.page + Number(button.value);
      button.disabled = to < 0 || to > last;
    }
  };
  for (const button of pager.querySelectorAll("button")) {
    button.addEventListener("click", () => {
      Object.assign(state, { page: state.page + Number(button.value), open: null });
      draw();
    });
  }
  form.addEventListener("input", find);
  form.addEventListener("submit", (event) => event.preventDefault());
  root.hidden = false;
  find();
  unfold();
})();
