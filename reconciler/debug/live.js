// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Updates the live parts of the page once a second while the page is visible. The server sends texts and
// the IDs of their elements. The script never treats a text as markup.
(() => {
	"use strict";

	const source = document.body.dataset.live;
	if (!source) return;

	const follow = document.getElementById("follow");
	const pulse = document.getElementById("pulse");
	const checkbox = follow.querySelector("input");
	follow.hidden = false;

	const say = (text) => { if (pulse.textContent !== text) pulse.textContent = text; };

	// fill puts a cell into an element. It changes only the parts that differ, so that a selection or the
	// focus is not lost.
	function fill(element, cell) {
		const tag = cell.href ? "A" : "SPAN";
		let inner = element.firstElementChild;
		if (!inner || inner.tagName !== tag) {
			inner = document.createElement(tag);
			element.replaceChildren(inner);
		}
		if (inner.textContent !== cell.text) inner.textContent = cell.text;
		for (const [name, value] of [["class", cell.kind], ["href", cell.href]]) {
			if (!value) inner.removeAttribute(name);
			else if (inner.getAttribute(name) !== value) inner.setAttribute(name, value);
		}
	}

	function element(tag, role, label) {
		const e = document.createElement(tag);
		e.setAttribute("role", role);
		e.dataset.label = label;
		return e;
	}

	function addRow(body, columns) {
		const row = body.insertRow();
		row.setAttribute("role", "row");
		columns.forEach((column, i) => {
			const e = i ? element("td", "cell", column) : element("th", "rowheader", column);
			if (!i) e.scope = "row";
			row.append(e);
		});
		return row;
	}

	function fillRows(body, rows) {
		const columns = Array.from(body.parentElement.tHead.rows[0].cells, (cell) => cell.textContent);
		while (body.rows.length > rows.length) body.deleteRow(-1);
		rows.forEach((cells, i) => {
			const row = body.rows[i] ?? addRow(body, columns);
			cells.forEach((cell, j) => fill(row.cells[j], cell));
		});
	}

	function place(live) {
		const each = (all, put) => {
			for (const [id, value] of Object.entries(all)) {
				const e = document.getElementById(id);
				if (e) put(e, value);
			}
		};
		each(live.cells, fill);
		each(live.rows, fillRows);
	}

	async function update() {
		if (document.hidden || !checkbox.checked) return;
		try {
			const answer = await fetch(source, { cache: "no-store", signal: AbortSignal.timeout(10000) });
			if (!answer.ok) throw new Error(answer.status + " " + answer.statusText);
			const live = await answer.json();
			// The reader may have stopped the updates meanwhile.
			if (checkbox.checked) place(live);
			say("");
		} catch (error) {
			say("not updated: " + error.message);
		}
	}

	async function run() {
		await update();
		setTimeout(run, 1000);
	}
	setTimeout(run, 1000);
})();
