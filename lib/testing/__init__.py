"""For tests of streams: the embedded broker and the stream driver."""
