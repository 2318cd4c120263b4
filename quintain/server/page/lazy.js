// @ts-check
// Views whose modules load when they are first looked at.
import { html, useEffect, useErrorBoundary, useState } from "./vendor/preact.js";
import { Loading, Problem } from "./widgets.js";

/** Loads a module, and shows its component. @param {{module: string, name: string, props: any}} props */
export function LazyView({ module, name, props }) {
  const [loaded, setLoaded] = useState(/** @type {any} */ (null));
  const [error, setError] = useState(/** @type {any} */ (null));
  const [crash, reset] = useErrorBoundary((problem) => console.error(problem));
  const load = () => {
    setError(null);
    import(module).then((found) => {
      if (!found[name]) throw new Error(`${module} has no ${name}`);
      setLoaded({ module, component: found[name] });
    }).catch(setError);
  };
  useEffect(load, [module]);
  if (crash) return html`<${Problem} error=${crash} retry=${reset} />`;
  if (error) return html`<${Problem} error=${new Error(`This view could not be loaded: ${error.message}`)} retry=${load} />`;
  if (loaded?.module === module) return html`<${loaded.component} ...${props} />`;
  return html`<${Loading} />`;
}
