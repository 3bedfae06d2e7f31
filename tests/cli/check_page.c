/* check_page.c -- check_page PAGE.html MEASURED SHOT.png light|dark: checks how a browser shows the page of `forgec compare`.
 * MEASURED: lines "width PIXELS", and "bar X Y WIDTH HEIGHT R G B" for each bar of speeds in order, as the browser reports them.
 * Checks that the screenshot has the width and the background (light or dark) and shows something; that every bar has as many pixels as the
 * browser reports; and that the lengths of the bars are in proportion to the speeds in the page's JSON. */
#include <cjson/cJSON.h>
#include <math.h>
#include <png.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BARS_MOST = 32 };
struct bar { double x, y, width, height; int color[3]; };
static struct bar bars[BARS_MOST];
static int n_bars, page_width;
static png_image shot = { .version = PNG_IMAGE_VERSION };
static png_byte *pixels;                                  /* [height][width][3] */

#define fail(...) do { fputs("check_page: ", stdout); printf(__VA_ARGS__); putchar('\n'); exit(1); } while (0)

static char *read_text(const char *path)
{
    FILE *f = fopen(path, "rb");
    if (!f) fail("cannot open %s", path);
    fseek(f, 0, SEEK_END);
    const long size = ftell(f);
    rewind(f);
    char *text = malloc((size_t)size + 1);
    if (!text || fread(text, 1, (size_t)size, f) != (size_t)size) fail("cannot read %s", path);
    text[size] = 0;
    fclose(f);
    return text;
}

static void read_measured(const char *path)
{
    for (char *line = strtok(read_text(path), "\n"); line; line = strtok(NULL, "\n")) {
        struct bar b;
        if (sscanf(line, "bar %lf %lf %lf %lf %d %d %d", &b.x, &b.y, &b.width, &b.height, &b.color[0], &b.color[1], &b.color[2]) == 7 &&
            n_bars < BARS_MOST) bars[n_bars++] = b;
        sscanf(line, "width %d", &page_width);
    }
    if (n_bars < 4 || n_bars % 2) fail("%d bars", n_bars);
}

static const png_byte *pixel(int x, int y) { return pixels + 3 * ((size_t)y * shot.width + (size_t)x); }

static void read_shot(const char *path)
{
    if (!png_image_begin_read_from_file(&shot, path)) fail("%s: %s", path, shot.message);
    shot.format = PNG_FORMAT_RGB;
    pixels = malloc(PNG_IMAGE_SIZE(shot));
    if (!pixels || !png_image_finish_read(&shot, NULL, pixels, 0, NULL)) fail("%s: %s", path, shot.message);
    if ((int)shot.width != page_width) fail("the shot is %u pixels wide, the page %d", shot.width, page_width);
}

/* Checks the background at the edge, light or dark, and that at least a tenth of the rows show something. */
static void check_paper(int dark)
{
    const png_byte *paper = pixel(2, 2);
    const int light = paper[0] + paper[1] + paper[2];
    if (dark ? light > 150 : light < 600) fail("the paper is %d %d %d", paper[0], paper[1], paper[2]);
    unsigned rows = 0;
    for (unsigned y = 0; y < shot.height; y++)
        for (unsigned x = 0; x < shot.width; x++)
            if (memcmp(pixel((int)x, (int)y), paper, 3)) { rows++; break; }
    if (rows < shot.height / 10) fail("%u of %u rows have something on them", rows, shot.height);
}

static int same_color(const png_byte *p, const int *color)
{
    for (int i = 0; i < 3; i++) if (abs(p[i] - color[i]) > 2) return 0;
    return 1;
}

/* The number of pixels with the bar's colour along its middle. */
static int length_of(const struct bar *b)
{
    const int y = (int)(b->y + b->height / 2);
    int n = 0;
    if (y < 0 || y >= (int)shot.height) fail("a bar at %d is not in the shot", y);
    for (int x = (int)ceil(b->x); x < (int)shot.width && same_color(pixel(x, y), b->color); x++) n++;
    return n;
}

/* The JSON of the page, with its entities replaced. */
static cJSON *json_of(const char *page)
{
    static const struct { const char *entity; char c; } entities[] = {
        { "&lt;", '<' }, { "&gt;", '>' }, { "&amp;", '&' }, { "&quot;", '"' }, { "&#39;", '\'' },
    };
    char *text = read_text(page), *from = strstr(text, "<pre id=\"json\">");
    if (!from) fail("no JSON in the page");
    from += strlen("<pre id=\"json\">");
    *strstr(from, "</pre>") = 0;
    char *to = text;
    while (*from) {
        size_t i = 0;
        while (i < 5 && strncmp(from, entities[i].entity, strlen(entities[i].entity))) i++;
        *to++ = i < 5 ? entities[i].c : *from;
        from += i < 5 ? strlen(entities[i].entity) : 1;
    }
    *to = 0;
    cJSON *root = cJSON_Parse(text);
    if (!root) fail("the JSON of the page cannot be read");
    return root;
}

static double speed_of(const cJSON *root, int program, const char *what)
{
    const cJSON *row = cJSON_GetArrayItem(cJSON_GetObjectItem(root, "programs"), program);
    const cJSON *speed = cJSON_GetObjectItem(cJSON_GetObjectItem(row, what), "tok_s");
    if (!cJSON_IsNumber(speed)) fail("no %s of program %d", what, program);
    return speed->valuedouble;
}

int main(int argc, char **argv)
{
    if (argc != 5) fail("usage: check_page PAGE.html MEASURED SHOT.png light|dark");
    read_measured(argv[2]);
    read_shot(argv[3]);
    check_paper(strcmp(argv[4], "dark") == 0);
    const cJSON *root = json_of(argv[1]);
    const int n = n_bars / 2;
    if (cJSON_GetArraySize(cJSON_GetObjectItem(root, "programs")) != n) fail("%d bars of %d programs", n_bars, n);
    for (int i = 0; i < n_bars; i++) {
        const char *what = i < n ? "decode" : "prefill";
        const int first = i < n ? 0 : n, length = length_of(&bars[i]), of = length_of(&bars[first]);
        const double wanted = of * speed_of(root, i - first, what) / speed_of(root, 0, what);
        if (fabs(length - bars[i].width) > 2) fail("bar %d: %d pixels, the browser says %.1f", i, length, bars[i].width);
        if (fabs(length - wanted) > 2.5) fail("%s of program %d: %d pixels, by its speed %.1f", what, i - first, length, wanted);
        if (length < 20) fail("bar %d: %d pixels", i, length);
    }
    printf("%d bars, %u x %u pixels\n", n_bars, shot.width, shot.height);
    return 0;
}
