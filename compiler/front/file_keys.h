/* file_keys.h -- keys of a file that belong to no architecture: general.* and tokenizer.*. */
#ifndef FORGEC_FILE_KEYS_H
#define FORGEC_FILE_KEYS_H
#include "gguf.h"

/* What forgec does with a key. READ and HARMLESS: as in file_key.def. IDLE: it sets a way of sampling that forgec does not have, to a value
 * that turns it off. UNDONE: it sets such a way of sampling to another value. */
enum file_key { FILE_KEY_READ, FILE_KEY_HARMLESS, FILE_KEY_IDLE, FILE_KEY_UNDONE, FILE_KEY_UNKNOWN };
enum file_key file_key_of(const struct gguf_pair *pair);
#endif
