/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The flame graph of a heap profile. All texts come from the profiled program and are only ever set
 * as textContent or attributes. libcore/report/html/flame.c writes the data.
 */
(function () {
	'use strict';

	const data = JSON.parse(document.getElementById('data').textContent);
	const twoProfiles = data.profiles.length === 2;
	const rowHeight = 20;
	const boxesMax = 8000; /* what a browser lays out without delay; outer rows come first */
	const root = merge(data.profiles);
	const graph = document.getElementById('graph');
	const detail = document.getElementById('detail');
	const search = document.getElementById('search');
	const measure = document.getElementById('measure');
	const inverted = document.getElementById('inverted');
	const found = document.getElementById('found');
	const state = { tree: root, zoom: root, selected: root, pattern: '' };
	let upsideDown = null;

	/* Nodes are in depth-first order with their depths; `total` has an array per measure. */
	function merge(profiles) {
		const top = node(null, { name: 'all', file: null, line: null, module: null, python: false });
		profiles.forEach((profile, side) => {
			const path = [top];
			addTotals(top, profile, 0, side);
			for (let i = 1; i < profile.depth.length; i++) {
				const parent = path[profile.depth[i] - 1];
				const frame = frameOf(profile.frames[profile.frame[i]], profile);
				const child = childOf(parent, frame);
				addTotals(child, profile, i, side);
				path[profile.depth[i]] = child;
			}
		});
		setOwn(top);
		return top;
	}

	function frameOf(row, profile) {
		return {
			name: row[0], file: row[1], line: row[2], module: row[3], python: row[4] === 1,
			ofProgram: row[1] !== null && row[1] === profile.program,
		};
	}

	function zeros() {
		return [new Array(data.measures.length).fill(0), new Array(data.measures.length).fill(0)];
	}

	function node(parent, frame) {
		return { parent, frame, children: new Map(), total: zeros(), own: zeros() };
	}

	/* Of two programs the file may differ, and the same function be on other lines. */
	function keyOf(frame) {
		const line = twoProfiles ? '' : frame.line;
		const file = twoProfiles && frame.ofProgram ? '' : frame.file;
		return JSON.stringify([frame.name, file, line, frame.module]);
	}

	function childOf(parent, frame) {
		const key = keyOf(frame);
		let child = parent.children.get(key);
		if (!child) {
			child = node(parent, frame);
			parent.children.set(key, child);
		}
		return child;
	}

	function addTotals(to, profile, index, side) {
		for (let m = 0; m < data.measures.length; m++)
			to.total[side][m] += profile.total[m] ? profile.total[m][index] : 0;
	}

	function walk(top, visit) {
		const stack = [top];
		while (stack.length) {
			const at = stack.pop();
			visit(at);
			for (const child of at.children.values())
				stack.push(child);
		}
	}

	/* What no child has, which includes branches too small to be in the page. */
	function setOwn(top) {
		walk(top, (at) => {
			for (let side = 0; side < 2; side++)
				for (let m = 0; m < data.measures.length; m++) {
					let rest = at.total[side][m];
					for (const child of at.children.values())
						rest -= child.total[side][m];
					at.own[side][m] = Math.max(0, rest);
				}
		});
	}

	/* Callees first: every stack from its innermost frame outwards. */
	function invert(top) {
		const flipped = node(null, top.frame);
		walk(top, (at) => {
			let to = flipped;
			if (!at.own.some((side) => side.some((bytes) => bytes > 0)))
				return;
			for (let from = at; ; from = from.parent) {
				for (let side = 0; side < 2; side++)
					for (let m = 0; m < data.measures.length; m++)
						to.total[side][m] += at.own[side][m];
				if (!from.parent)
					break;
				to = childOf(to, from.frame);
			}
		});
		setOwn(flipped);
		return flipped;
	}

	function chosen() {
		return Number(measure.value);
	}

	/* Width of a node: of two profiles, the larger one. */
	function size(at) {
		const m = chosen();
		return Math.max(at.total[0][m], at.total[1][m]);
	}

	function sortedChildren(at) {
		return Array.from(at.children.values())
			.filter((child) => size(child) > 0)
			.sort((a, b) => size(b) - size(a));
	}

	function bytesText(bytes) {
		const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB', 'EiB'];
		let value = Math.abs(bytes), unit = 0;
		while (value >= 999.5 && unit + 1 < units.length) {
			value /= 1024;
			unit++;
		}
		const digits = value >= 99.95 || unit === 0 ? 0 : value >= 9.995 ? 1 : 2;
		return (bytes < 0 ? '-' : '') + value.toFixed(digits) + ' ' + units[unit];
	}

	function place(frame) {
		if (frame.file)
			return frame.line ? frame.file + ':' + frame.line : frame.file;
		return frame.module || '';
	}

	function amountText(at) {
		const m = chosen();
		if (!twoProfiles) {
			const all = root.total[0][m];
			const share = all ? (at.total[0][m] / all) * 100 : 0;
			return bytesText(at.total[0][m]) + ', ' + share.toFixed(1) + ' %';
		}
		const change = at.total[1][m] - at.total[0][m];
		return bytesText(at.total[0][m]) + ' \u2192 ' + bytesText(at.total[1][m]) + ' (' +
			(change < 0 ? '' : '+') + bytesText(change) + ')';
	}

	function label(at) {
		const where = place(at.frame);
		return at.frame.name + (where ? ' (' + where + ')' : '') + ', ' + amountText(at);
	}

	function hash(text) {
		let value = 0;
		for (let i = 0; i < text.length; i++)
			value = (value * 31 + text.charCodeAt(i)) >>> 0;
		return value;
	}

	/* Python: a warm hue by file. Native: a cool one by module. Two profiles: more or less. */
	function colour(at) {
		if (twoProfiles) {
			const m = chosen(), before = at.total[0][m], after = at.total[1][m];
			const change = (after - before) / Math.max(before, after, 1);
			const strength = Math.round(Math.abs(change) * 55);
			const hue = change > 0 ? 22 : 212;
			return 'hsl(' + hue + ' ' + (strength ? 20 + strength : 4) + '% var(--lightness))';
		}
		if (!at.parent)
			return 'var(--line)';
		if (at.frame.python)
			return 'hsl(' + (18 + (hash(at.frame.file || '') % 40)) + ' 70% var(--lightness))';
		return 'hsl(' + (190 + (hash(at.frame.module || '') % 50)) + ' 45% var(--lightness))';
	}

	function matches(at) {
		if (!state.pattern)
			return false;
		const text = (at.frame.name + ' ' + place(at.frame)).toLowerCase();
		return text.includes(state.pattern);
	}

	/* `screen` is what is drawn: sizes are asked for once, since each question is a new layout. */
	function box(screen, at, left, width, depth) {
		const element = document.createElement('div');
		element.className = 'box' + (matches(at) ? ' match' : '') +
			(at === state.selected ? ' selected' : '');
		element.setAttribute('role', 'treeitem');
		element.setAttribute('aria-level', String(depth + 1));
		element.setAttribute('aria-label', label(at));
		element.setAttribute('aria-selected', String(at === state.selected));
		element.id = 'box' + screen.boxes++;
		element.title = label(at);
		element.style.left = left * 100 + '%';
		element.style.width = width * 100 + '%';
		element.style.top = depth * rowHeight + 'px';
		element.style.background = colour(at);
		if (width * screen.width > 30)
			element.textContent = at.frame.name;
		element.node = at;
		screen.fragment.appendChild(element);
		return element;
	}

	/* Ancestors of the zoomed node in full width, then what is below it, row by row. */
	function draw() {
		const screen = {
			width: Math.max(graph.clientWidth, 1), boxes: 0,
			fragment: document.createDocumentFragment(),
		};
		const above = [];
		for (let at = state.zoom.parent; at; at = at.parent)
			above.unshift(at);
		above.forEach((at, depth) => box(screen, at, 0, 1, depth).classList.add('above'));
		const rows = drawBelow(screen, above.length);
		graph.replaceChildren(screen.fragment);
		graph.style.height = rows * rowHeight + 'px';
		markActive();
		showFound();
	}

	function drawBelow(screen, first) {
		const whole = Math.max(size(state.zoom), 1);
		const queue = [[state.zoom, 0, 1, first]];
		let rows = first + 1;
		for (let i = 0; i < queue.length && screen.boxes < boxesMax; i++) {
			const [at, left, width, depth] = queue[i];
			const children = sortedChildren(at);
			/* With two profiles the children's larger sides may exceed the parent. */
			const sum = children.reduce((all, child) => all + size(child), 0);
			const scale = Math.min(1, size(at) / Math.max(sum, 1)) / whole * factor(at, width, whole);
			box(screen, at, left, width, depth);
			rows = Math.max(rows, depth + 1);
			let next = left;
			for (const child of children) {
				const part = size(child) * scale;
				if (part * screen.width < 1)
					break;
				queue.push([child, next, part, depth + 1]);
				next += part;
			}
		}
		return rows;
	}

	/* How much narrower than its bytes a node is drawn, because its parent was. */
	function factor(at, width, whole) {
		return width * whole / Math.max(size(at), 1);
	}

	function markActive() {
		const active = Array.from(graph.children).find((e) => e.node === state.selected);
		if (active)
			graph.setAttribute('aria-activedescendant', active.id);
		else
			graph.removeAttribute('aria-activedescendant');
		showDetail(state.selected);
	}

	function showDetail(at) {
		const m = chosen();
		const sides = twoProfiles ? ['first', 'second'] : [''];
		detail.replaceChildren();
		const head = document.createElement('p');
		const name = document.createElement('strong');
		name.textContent = at.frame.name;
		head.append(name, ' ' + place(at.frame));
		const amounts = document.createElement('p');
		amounts.textContent = amountText(at) + '; own ' + sides.map((side, i) =>
			(side ? side + ' ' : '') + bytesText(at.own[i][m])).join(', ');
		const others = document.createElement('p');
		others.textContent = data.measures.map((each, i) => each.name + ' ' +
			(each.unknown ? '\u2013' : sides.map((side, s) => bytesText(at.total[s][i])).join(' \u2192 ')))
			.join(', ');
		detail.append(head, amounts, others);
	}

	/* Matches within other matches count once. */
	function showFound() {
		let count = 0, bytes = 0;
		const m = chosen(), side = twoProfiles ? 1 : 0;
		if (!state.pattern) {
			found.textContent = '';
			return;
		}
		const stack = [state.tree];
		const inside = new Set();
		while (stack.length) {
			const at = stack.pop();
			const covered = at.parent && inside.has(at.parent);
			if (matches(at)) {
				count++;
				if (!covered)
					bytes += at.total[side][m];
			}
			if (covered || matches(at))
				inside.add(at);
			stack.push(...at.children.values());
		}
		const all = state.tree.total[side][m];
		found.textContent = count + (count === 1 ? ' frame, ' : ' frames, ') + bytesText(bytes) +
			(all ? ', ' + ((bytes / all) * 100).toFixed(1) + ' %' : '');
	}

	function select(at) {
		state.selected = at;
		draw();
	}

	function zoom(at) {
		state.zoom = at;
		state.selected = at;
		draw();
	}

	function useTree() {
		if (inverted.checked && !upsideDown)
			upsideDown = invert(root);
		state.tree = inverted.checked ? upsideDown : root;
		zoom(state.tree);
	}

	function sibling(at, step) {
		if (!at.parent || at === state.zoom)
			return at;
		const all = sortedChildren(at.parent);
		return all[all.indexOf(at) + step] || at;
	}

	const keys = {
		ArrowDown: (at) => select(sortedChildren(at)[0] || at),
		ArrowUp: (at) => at.parent && (at === state.zoom ? zoom(at.parent) : select(at.parent)),
		ArrowLeft: (at) => select(sibling(at, -1)),
		ArrowRight: (at) => select(sibling(at, 1)),
		Enter: (at) => zoom(at),
		Escape: () => zoom(state.tree),
		Home: () => zoom(state.tree),
	};

	graph.addEventListener('keydown', (event) => {
		const act = keys[event.key];
		if (!act || event.ctrlKey || event.metaKey || event.altKey)
			return;
		act(state.selected);
		event.preventDefault();
	});
	graph.addEventListener('click', (event) => {
		if (event.target.node)
			zoom(event.target.node);
		graph.focus();
	});
	graph.addEventListener('mouseover', (event) => {
		if (event.target.node)
			showDetail(event.target.node);
	});
	graph.addEventListener('mouseleave', () => showDetail(state.selected));
	document.addEventListener('keydown', (event) => {
		if (event.key === '/' && document.activeElement !== search) {
			search.focus();
			event.preventDefault();
		}
	});
	search.addEventListener('input', () => {
		state.pattern = search.value.trim().toLowerCase();
		draw();
	});
	search.addEventListener('keydown', (event) => {
		if (event.key === 'Escape') {
			search.value = '';
			state.pattern = '';
			draw();
			graph.focus();
		}
	});
	document.getElementById('reset').addEventListener('click', () => zoom(state.tree));
	measure.addEventListener('change', draw);
	inverted.addEventListener('change', useTree);
	window.addEventListener('resize', draw);

	data.measures.forEach((each, i) => {
		const option = document.createElement('option');
		option.value = String(i);
		option.textContent = each.name;
		option.disabled = Boolean(each.unknown);
		option.title = each.unknown || '';
		measure.append(option);
	});
	measure.value = String(data.chosen);
	document.getElementById('controls').hidden = false;
	draw();
})();
