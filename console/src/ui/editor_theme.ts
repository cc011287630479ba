// How the editor looks: the page's colours, which reach into its shadow root as variables.

import { EditorView } from "@codemirror/view";

export const editorTheme = EditorView.theme({
  "&": { height: "100%", backgroundColor: "var(--ground)", color: "var(--text)", fontSize: "13px" },
  "&.cm-focused": { outline: "none" },
  ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "20px" },
  ".cm-content": { padding: "8px 0", caretColor: "var(--accent)" },
  ".cm-line": { padding: "0 12px 0 10px", borderLeft: "2px solid transparent" },
  ".cm-line.current-statement": { borderLeftColor: "var(--accent)" },
  ".cm-gutters": {
    backgroundColor: "var(--ground)", color: "var(--faint)", border: "none", fontSize: "11.5px",
  },
  ".cm-lineNumbers .cm-gutterElement": { padding: "0 6px 0 12px", minWidth: "34px" },
  ".cm-cursor": { borderLeft: "2px solid var(--accent)" },
  "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground":
    { background: "var(--selected)" },
  ".cm-selectionMatch": { backgroundColor: "var(--match)" },
  ".cm-matchingBracket, &.cm-focused .cm-matchingBracket": {
    backgroundColor: "var(--match)", outline: "none",
  },
  ".cm-placeholder": { color: "var(--faint)" },
  ".fault-mark": {
    textDecoration: "underline wavy var(--bad)", textUnderlineOffset: "4px",
    backgroundColor: "var(--bad-ground)",
  },
  ".fault": { paddingTop: "1px", paddingBottom: "3px", marginLeft: "12px", whiteSpace: "pre-wrap" },
  ".fault span": {
    display: "inline-block", color: "var(--bad)", background: "var(--bad-ground)",
    borderLeft: "2px solid var(--bad)", padding: "1px 8px", fontFamily: "var(--sans)", fontSize: "12px",
  },
  ".cm-tooltip": {
    backgroundColor: "var(--raised)", color: "var(--text)", border: "1px solid var(--line-strong)",
    borderRadius: "6px", boxShadow: "var(--shadow)", overflow: "hidden",
  },
  ".cm-tooltip.cm-tooltip-autocomplete > ul": { fontFamily: "var(--mono)", fontSize: "12px", maxHeight: "15em" },
  ".cm-tooltip.cm-tooltip-autocomplete > ul > li": { padding: "3px 8px", lineHeight: "16px" },
  ".cm-tooltip-autocomplete ul li[aria-selected]": {
    background: "var(--selected) !important", color: "var(--text) !important",
  },
  ".cm-completionMatchedText": { textDecoration: "none", color: "var(--accent)", fontWeight: "600" },
  ".cm-completionDetail": { color: "var(--muted)", fontStyle: "normal", marginLeft: "12px" },
  ".cm-completionIcon": { width: "1.1em", opacity: "0.7" },
  ".cm-completionIcon-keyword:after": { content: "'·'" },
  ".cm-completionIcon-table:after": { content: "'▦'" },
  ".cm-completionIcon-column:after": { content: "'▏'" },
  ".cm-completionInfo": {
    padding: "6px 10px", maxWidth: "360px", fontFamily: "var(--sans)", fontSize: "12px",
    color: "var(--muted)", whiteSpace: "pre-line",
  },
  ".cm-panels": { backgroundColor: "var(--panel)", color: "var(--text)", borderColor: "var(--line)" },
  ".cm-panel.cm-search": { padding: "6px 10px", fontFamily: "var(--sans)", fontSize: "12px" },
  ".cm-textfield": {
    backgroundColor: "var(--ground)", border: "1px solid var(--line-strong)", borderRadius: "4px",
    color: "var(--text)", fontSize: "12px",
  },
  ".cm-button": {
    backgroundImage: "none", backgroundColor: "var(--raised)", border: "1px solid var(--line-strong)",
    borderRadius: "4px", color: "var(--text)", fontSize: "12px",
  },
  ".cm-searchMatch": { backgroundColor: "var(--match)" },
});
