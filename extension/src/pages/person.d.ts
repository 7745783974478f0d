/** Those parts of the person's page (`src/secvm/participant/ui/static`) that the extension's own scripts use. */

declare module "person/language.js" {
  export function preferred(): string;
  export function speak(language: string): Promise<void>;
  export function t(key: string, values?: Record<string, unknown>): string;
}

declare module "person/summary.js" {
  export function summary(state: unknown, here: readonly unknown[]): string;
}
