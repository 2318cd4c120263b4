// What the page uses of htm/preact/standalone, for `scripts/check_page`.
export type VNode = any;
export function h(type: any, props?: any, ...children: any[]): VNode;
export function html(strings: TemplateStringsArray, ...values: any[]): VNode;
export function render(tree: VNode, parent: Element): void;
export class Component<P = any, S = any> {
  constructor(props?: P);
  props: P;
  state: S;
  setState(patch: Partial<S>): void;
  forceUpdate(): void;
}
export function useState<T>(initial: T | (() => T)): [T, (value: T | ((old: T) => T)) => void];
export function useReducer<S, A>(reduce: (state: S, action: A) => S, initial: S): [S, (action: A) => void];
export function useEffect(effect: () => void | (() => void), inputs?: unknown[]): void;
export function useLayoutEffect(effect: () => void | (() => void), inputs?: unknown[]): void;
export function useRef<T = any>(initial?: T): { current: T };
export function useMemo<T>(make: () => T, inputs?: unknown[]): T;
export function useCallback<T extends Function>(callback: T, inputs?: unknown[]): T;
export function createContext<T>(value: T): any;
export function useContext<T>(context: any): T;
export function useErrorBoundary(callback?: (error: any) => void): [any, () => void];
