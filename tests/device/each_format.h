/* each_format.h -- includes the file EACH_FORMAT once for each weight format, with FORMAT defined as its name. */
#include "templates/gpu/formats/f32.h"
#define FORMAT f32
#include EACH_FORMAT
#undef FORMAT
#include "templates/gpu/formats/f16.h"
#define FORMAT f16
#include EACH_FORMAT
#undef FORMAT
#include "templates/gpu/formats/bf16.h"
#define FORMAT bf16
#include EACH_FORMAT
#undef FORMAT
#include "templates/gpu/formats/q8_0.h"
#define FORMAT q8_0
#include EACH_FORMAT
#undef FORMAT
#include "templates/gpu/formats/q4_0.h"
#define FORMAT q4_0
#include EACH_FORMAT
#undef FORMAT
#include "templates/gpu/formats/q4_1.h"
#define FORMAT q4_1
#include EACH_FORMAT
#undef FORMAT
#include "templates/gpu/formats/q5_0.h"
#define FORMAT q5_0
#include EACH_FORMAT
#undef FORMAT
#include "templates/gpu/formats/q5_1.h"
#define FORMAT q5_1
#include EACH_FORMAT
#undef FORMAT
#include "templates/gpu/formats/q2_K.h"
#define FORMAT q2_K
#include EACH_FORMAT
#undef FORMAT
#include "templates/gpu/formats/q3_K.h"
#define FORMAT q3_K
#include EACH_FORMAT
#undef FORMAT
#include "templates/gpu/formats/q4_K.h"
#define FORMAT q4_K
#include EACH_FORMAT
#undef FORMAT
#include "templates/gpu/formats/q5_K.h"
#define FORMAT q5_K
#include EACH_FORMAT
#undef FORMAT
#include "templates/gpu/formats/q6_K.h"
#define FORMAT q6_K
#include EACH_FORMAT
#undef FORMAT
#include "templates/gpu/formats/iq4_nl.h"
#define FORMAT iq4_nl
#include EACH_FORMAT
#undef FORMAT
#include "templates/gpu/formats/iq4_xs.h"
#define FORMAT iq4_xs
#include EACH_FORMAT
#undef FORMAT
#include "templates/gpu/formats/mxfp4.h"
#define FORMAT mxfp4
#include EACH_FORMAT
#undef FORMAT
