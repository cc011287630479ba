// The console of Tidegate: where it begins.

import { render } from "preact";
import "./styles/fonts.css";
import "./styles/page.css";
import "./styles/query.css";
import "./styles/pages.css";
import "uplot/dist/uPlot.min.css";
import "./styles/chart.css";
import { refreshSchema } from "./state/schema";
import { startServer } from "./state/server";
import { startView } from "./state/view";
import { App } from "./ui/app";
import { startKeys } from "./ui/commands";

startView();
startKeys();
startServer();
void refreshSchema();
render(<App />, document.getElementById("app")!);
