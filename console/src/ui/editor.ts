// The editor of SQL: CodeMirror, with our words, the live schema, and errors where they are.
//
// - ED1. The editor lives in a shadow root: there its styles are objects and no elements, and the
//   page's policy needs no exception for styles.
// - ED2. Each tab keeps its own state, with undo and cursor.
// - ED3. An error stands below its line until the text changes.

import {
  autocompletion,
  closeBrackets,
  closeBracketsKeymap,
  completionKeymap,
  startCompletion,
  type CompletionContext,
  type CompletionResult,
} from "@codemirror/autocomplete";
import {
  defaultKeymap,
  history,
  historyKeymap,
  indentWithTab,
  toggleComment,
} from "@codemirror/commands";
import { SQLDialect } from "@codemirror/lang-sql";
import {
  bracketMatching,
  HighlightStyle,
  indentOnInput,
  syntaxHighlighting,
} from "@codemirror/language";
import { highlightSelectionMatches, search, searchKeymap } from "@codemirror/search";
import { EditorState, StateEffect, StateField, type Extension } from "@codemirror/state";
import {
  Decoration,
  drawSelection,
  EditorView,
  highlightSpecialChars,
  keymap,
  lineNumbers,
  placeholder,
  WidgetType,
  type DecorationSet,
} from "@codemirror/view";
import { tags } from "@lezer/highlight";

import { suggest, type Catalog } from "../sql/completion";
import { KEYWORDS, TYPES } from "../sql/dialect";
import { statementAt, type Span } from "../sql/statements";
import { editorTheme } from "./editor_theme";

export interface EditorListener {
  onChange(text: string): void;
  onRun(): void;
  catalog(): Catalog;
}

/** Texts above that size are not searched for the statement at the cursor while one types. */
const MARKED_MAX = 100_000;

const dialect = SQLDialect.define({
  keywords: KEYWORDS.join(" "),
  types: TYPES.join(" "),
  builtin: "",
  operatorChars: "*+-%<>!=&|~^/",
  doubleQuotedStrings: false,
  identifierQuotes: '"',
});

const colours = HighlightStyle.define([
  { tag: tags.keyword, color: "var(--code-keyword)" },
  { tag: tags.typeName, color: "var(--code-type)" },
  { tag: [tags.string, tags.special(tags.string)], color: "var(--code-string)" },
  { tag: [tags.number, tags.bool, tags.null], color: "var(--code-number)" },
  { tag: tags.comment, color: "var(--code-comment)", fontStyle: "italic" },
  { tag: tags.operator, color: "var(--code-operator)" },
]);

interface Fault {
  from: number;
  to: number;
  message: string;
}

const setFault = StateEffect.define<Fault | null>();

const faultField = StateField.define<DecorationSet>({
  create: () => Decoration.none,
  update(shown, transaction) {
    for (const effect of transaction.effects) {
      if (effect.is(setFault))
        return effect.value ? decorations(transaction.state, effect.value) : Decoration.none;
    }
    return transaction.docChanged ? Decoration.none : shown; // ED3
  },
  provide: (field) => EditorView.decorations.from(field),
});

class FaultText extends WidgetType {
  constructor(
    private readonly message: string,
    private readonly indent: number,
  ) {
    super();
  }

  override eq(other: FaultText): boolean {
    return other.message === this.message && other.indent === this.indent;
  }

  toDOM(): HTMLElement {
    const line = document.createElement("div");
    line.className = "fault";
    line.setAttribute("role", "alert");
    line.style.paddingLeft = `${this.indent}ch`;
    const text = document.createElement("span");
    text.textContent = this.message;
    line.append(text);
    return line;
  }
}

function decorations(state: EditorState, { from, to, message }: Fault): DecorationSet {
  const line = state.doc.lineAt(from);
  const indent = Math.min(from - line.from, 60);
  const text = Decoration.widget({ widget: new FaultText(message, indent), block: true, side: 1 });
  const marks = from < to ? [Decoration.mark({ class: "fault-mark" }).range(from, to)] : [];
  return Decoration.set([...marks, text.range(line.to)], true);
}

/** Marks the lines of the statement that would run. */
const currentStatement = EditorView.decorations.compute(["doc", "selection"], (state) => {
  if (MARKED_MAX < state.doc.length || !state.selection.main.empty) return Decoration.none;
  const span = statementAt(state.doc.toString(), state.selection.main.head);
  if (span === null) return Decoration.none;
  const [first, last] = [state.doc.lineAt(span.from).number, state.doc.lineAt(span.to).number];
  const lines = Array.from({ length: last - first + 1 }, (_, i) => state.doc.line(first + i).from);
  return Decoration.set(
    lines.map((from) => Decoration.line({ class: "current-statement" }).range(from)),
  );
});

export class Editor {
  private readonly view: EditorView;
  private readonly states = new Map<number, EditorState>();
  private shown = -1;

  constructor(
    host: HTMLElement,
    private readonly listener: EditorListener,
  ) {
    const root = host.shadowRoot ?? host.attachShadow({ mode: "open", delegatesFocus: true });
    this.view = new EditorView({ parent: root, root, state: this.newState("") }); // ED1
  }

  destroy(): void {
    this.view.destroy();
  }

  focus(): void {
    this.view.focus();
  }

  /** Shows the text of a tab, as it was left (ED2). */
  show(tab: number, text: string): void {
    if (tab === this.shown) return;
    if (0 <= this.shown) this.states.set(this.shown, this.view.state);
    const kept = this.states.get(tab);
    this.view.setState(kept && kept.doc.toString() === text ? kept : this.newState(text));
    this.shown = tab;
  }

  forget(tab: number): void {
    this.states.delete(tab);
  }

  /** What would run: the selection, else the statement at the cursor. */
  runnable(): Span | null {
    const { main } = this.view.state.selection;
    if (!main.empty) return { from: main.from, to: main.to };
    return statementAt(this.view.state.doc.toString(), main.head);
  }

  showFault(fault: Fault | null): void {
    const size = this.view.state.doc.length;
    const isThere = fault === null || fault.to <= size;
    this.view.dispatch({ effects: setFault.of(isThere ? fault : null) });
  }

  goTo(place: number): void {
    this.view.dispatch({ selection: { anchor: place }, scrollIntoView: true });
    this.view.focus();
  }

  /** Writes at the cursor. */
  insert(text: string): void {
    this.view.dispatch(this.view.state.replaceSelection(text), { scrollIntoView: true });
    this.view.focus();
  }

  setText(text: string): void {
    this.view.dispatch({
      changes: { from: 0, to: this.view.state.doc.length, insert: text },
      selection: { anchor: text.length },
    });
  }

  private newState(text: string): EditorState {
    return EditorState.create({ doc: text, extensions: this.extensions() });
  }

  private extensions(): Extension[] {
    const run = () => {
      this.listener.onRun();
      return true;
    };
    const own = keymap.of([
      { key: "Mod-Enter", run, shift: run },
      { key: "Ctrl-Space", run: startCompletion },
      { key: "Mod-/", run: toggleComment },
    ]);
    return [
      own,
      keymap.of([...closeBracketsKeymap, ...completionKeymap, ...searchKeymap, ...historyKeymap]),
      keymap.of([...defaultKeymap, indentWithTab]),
      lineNumbers(),
      history(),
      drawSelection(),
      highlightSpecialChars(),
      indentOnInput(),
      bracketMatching(),
      closeBrackets(),
      search({ top: true }),
      highlightSelectionMatches(),
      dialect.language,
      syntaxHighlighting(colours),
      autocompletion({ override: [(context) => this.complete(context)], icons: true }),
      placeholder("SELECT ..."),
      faultField,
      currentStatement,
      editorTheme,
      EditorView.contentAttributes.of({ "aria-label": "SQL", "aria-describedby": "editor-help" }),
      EditorView.updateListener.of((update) => {
        if (update.docChanged) this.listener.onChange(update.state.doc.toString());
      }),
    ];
  }

  private complete(context: CompletionContext): CompletionResult | null {
    const text = context.state.doc.toString();
    const found = suggest(text, context.pos, this.listener.catalog());
    if (found === null || found.options.length === 0) return null;
    const isBehindPoint = text[found.from - 1] === ".";
    if (!context.explicit && found.from === context.pos && !isBehindPoint) return null;
    return { from: found.from, options: found.options, validFor: /^[\w$]*$/ };
  }
}
