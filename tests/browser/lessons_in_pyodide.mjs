// node lessons_in_pyodide.mjs JOB: runs the cells of a lesson in Pyodide; see the .py beside it.
import fs from "node:fs";
import path from "node:path";
import { pathToFileURL } from "node:url";

const job = JSON.parse(fs.readFileSync(process.argv[2], "utf8"));
const { loadPyodide } = await import(pathToFileURL(path.join(job.pyodide, "pyodide.mjs")).href);
const python = await loadPyodide({ indexURL: job.pyodide + path.sep, env: job.environment });
const quietly = { messageCallback: () => {} };
await python.loadPackage(job.packages, quietly);
for (const cell of job.cells) await python.loadPackagesFromImports(cell.source, quietly);
for (const [here, folder] of Object.entries(job.folders)) {
  python.FS.mkdirTree(here);
  python.mountNodeFS(here, folder);
}
python.globals.set("cells", python.toPy(job.cells));
python.globals.set("cpu_seconds", () => process.cpuUsage().user / 1e6);
const results = await python.runPythonAsync(`
import sys
sys.dont_write_bytecode = True
sys.path += ["/repository", "/packages", "/repository/tests/browser/stand_ins"]
from tests.browser.lessons_in_pyodide import run_cells
await run_cells(cells, cpu_seconds)
`);
fs.writeFileSync(job.results, results);
process.exit(0);
