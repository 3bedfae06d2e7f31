const facts = null; // @facts
