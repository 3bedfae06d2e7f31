/* format_file.h -- FORMAT_FILE(gpu) is "templates/gpu/formats/q4_K.h" if FORMAT is q4_K, for #include.
 * format.def defines FORMAT as each format in turn (EACH_FORMAT). */
#ifndef TEST_FORMAT_FILE_H
#define TEST_FORMAT_FILE_H
#define FORMAT_TEXT_(text) #text
#define FORMAT_TEXT(text) FORMAT_TEXT_(text)
#define FORMAT_FILE(machine) FORMAT_TEXT(templates/machine/formats/FORMAT.h)
#endif
