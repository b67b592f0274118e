// Reads a stream of server-sent events by fetch, which can send a token as EventSource cannot.

export interface ServerEvent {
  event: string;
  data: string;
}

/** The longest event; a longer one ends the stream. */
const EVENT_MAX = 4 << 20;

/** Splits text into events; keeps what is not complete yet. */
export class EventParser {
  private rest = "";

  /** Returns the events that `chunk` completes. */
  push(chunk: string): ServerEvent[] {
    this.rest += chunk.replaceAll("\r\n", "\n");
    const blocks = this.rest.split("\n\n");
    this.rest = blocks.pop() ?? "";
    if (this.rest.length > EVENT_MAX) throw new Error("an event of the stream is too long");
    return blocks.map(parse).filter((event) => event.data !== "");
  }
}

function parse(block: string): ServerEvent {
  const event = { event: "message", data: "" };
  for (const line of block.split("\n")) {
    const [, field, value] = /^(event|data): ?(.*)$/.exec(line) ?? [];
    if (field === "event") event.event = value ?? "";
    if (field === "data") event.data += (event.data ? "\n" : "") + (value ?? "");
  }
  return event;
}

/** Hands each event of a response on until it ends. */
export async function follow(response: Response, on: (event: ServerEvent) => void): Promise<void> {
  if (!response.body) return;
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  const parser = new EventParser();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    parser.push(value).forEach(on);
  }
}
