/* grids.c -- the grids of the IQ formats: iq1s_grid, iq2xxs_grid, iq2xs_grid, iq2s_grid, iq3xxs_grid, iq3s_grid in ggml-common.h
 * (ggml-org/ggml). Each is a set of numbers in ascending order: the levels of a group's magnitudes, as digits to base 3 (IQ1, IQ2) or 8
 * (IQ3), with column 0 the lowest digit. The text has their differences, one character for each: ']' is 1, '^' is 2 and so on, and '~' adds
 * 33 to the next difference. */
#include "grids.h"

uint16_t grid_iq1[2048], grid_iq2_xxs[256], grid_iq2_xs[512], grid_iq2_s[1024], grid_iq3_xxs[256], grid_iq3_s[512];

static const char iq1[] =                      /* IQ1_S and IQ1_M */
    "]^^^^^_a^`^ab^^da^`^aa^`^`]b^^^]ab`^`^`^^^]cb^^da^`^aa^`^abba`^^`^^__^^`^g^^dbbb``]kbbb^]]d^^d^``]]^]]^^^^^^^e_^^^^]]^j`h^b^^^_]"
    "`^bb^`g^`^aa^`^ab`da^`^aa^`^ab^`a]bd]_b^`h^^^ba^`^aa^`^abb__a^^^^aa^`^f]^`a]b^b`^`^]_h^^a_b^^^^^^^`^`b`]]]]]]^^`dd^b^l^^daa^`^^^"
    "`^db^^db`^a]^]_`a_]]^^^]]^`^^b`^_]^]]^^]_`^`^^]]^^^^^^^^]]a]]]]^]^^]]^^^]]^^]]^]]^]]^^b^]]d]]^^``^]]^^^_]]]_^]^]]b__^d`h`db^^^^`"
    "^^]]^^^bb^fj^^`^_c]]^`^]]^]]``d_]^^``^ecc^c^^^^^^``^bb`_f^`^aa^^^^abb__a^`^aa^^^^ab^`bc]`b^^^^]]daa^bba^^_a^`^ab`^bba^^_a^`^ad^^"
    "bd]]^`^^^bdb^`__hbbb^`^`^]_`^^f^_]^^^^^^ba^abbbba]ba^`df^`^aa^`^ab^fa^`^f^`^d_^`bf^`^b^^^baa^a]a^`^f^`^ab`^ba^`^aa^`^ab`dh`^^^^^"
    "^l`_``]^^^`^]]^^`^b^^^^]]^]a^^^^^`^^a]]gb^^dbf^```eafbh_eb^^^^]]a]^^^^`^^^^a]b_]^`^^]]^^``^^]]^^]^]]]]_^]]^`]]^`^]]^]a^^^__a]^^^"
    "^`^^^^_]]^]^`^^`_``]b^^db_`aca^`^`^^^bb^^^bb_]_]_]^`^^```^]]]]^^^^]_b^`^]]`^^^ll^^b^^``jfb^]]^`^`^^`^`^`^]]^b^d^b^_]`^b^]]^^]]]]"
    "^`]]^^^]]^^]]]]]]]]^^]]^`^b^]]^^``^`b^`^^d^`^^]]^`^ea^^_]`e]b^]]]]__^^^^]]^]]]^]]]]]^]]]]^^b^^^]]^_^]`^]]]]^^]]]]]^]^^]]^^]]]]]]"
    "]^]]]]]]]]]]^]]]]]^^]_]]]^]]]]_^]]^^]]]^]]_^]^]^]]]]]]]__]]]]]]]]]]]]]^^]_`^]]]]^_`_^]]]a]]^^`^`ca^^^^]]]]^^]]ca^^^^`b_]^`^^]]^b"
    "b^]]^^]]]]]]]]^^]]^____^]]]]bd_c`]`]^b^]__]]]`^^^^c_^]]^^hd^^bdb`]]^^^^^_idb^^^`^b]_^b___]^b]_`a_^b`^h`^g]`d]]_ib`dk]^]_^`^^^^^^"
    "^^]]^]]^^d]_^^]]]]^^^`b^^^_]^j]]^^]^]]^_^]]^c^]^_]^]_^]]aabaa]]^`^^^^]]]^]`^_^^``^]]^_^_k^bbf^`^bbbada^b`b^^^^]_]]`^]]^^``_]aab^"
    "]_h`]i^`^`^^`]_cc_^b`^`^f^`^aa]^^^ba^`^aa^`^ab^^^bb^`^^^]]]a^^b_a^^ba^`^aa^`^g^`ba^`^aa^`^i`h^c_`^^`j`hb`^`b^^]_^`^]]^]a]]^^^^^^"
    "^^^dj`^bb^`]]`_]^`_abc`b^`^aa^`^^_b^`b_^^`^aa^`^a]a^^db^^^^^^`^^ff^ba^`^aa^`^ab^^i^`^aa^`^ab`]]bb`^b^^d]ab^^^bb^^^^`^^^^^^^`a]^]"
    "]^`^d^b^^`^^^bb^`bd^^^^^^d^bd^g_^^``^d`d^^]]]]^]]^d^b]]^`b^`^^]]^]]^___]^^]]^^]]]]]]]]^^]]^__^`]]]]^]]^^^^^^b`_^a^b^]_]^]^b^a]`]"
    "_]]d^^bf^bb``^^]_`]eb`^bd^^^^^^^]]^^`^^^^^^]]^`^]_^^b^^`^`deed^^^`^`hb^]]i^`^aa^`^ab^^^g^`^aa^`^a__^^^]k^__^^^^fa^_^i`^]c``^ab`^"
    "ba^`^aa^`^mbb^b_]^^^_]]]bx^^^^^d^`^b^]]^b`^^]]^`^^lb`_^_d^__^]]_^h``]^_^^`^`^f^`^g^^^g^`^aa^`^ad`__bd``^`^gai^`^f^`^g^^i^`^aa^`^";
static const char iq2_xxs[] =                      /* IQ2_XXS */
    "]^^^^^^b^`^^^bb`^b^bhd^b`jzhh^n~_v^bf^b^`hf^bhb^`hjp^ft^nznb`^bh`^b^rtt~sf~~`^bfdnhb`jbhndf~kf~mbh`hp~e|~]j~~^^bnxv`~~^~i~g^brld"
    "^~md~k^~~j^bnj~cxp~~zth~k~~~w~o^bb`^bbd`f^bnnxd`tdtdfzbh~_lrf~w~~l^bn`~m~e`f~s|nb`b^~_btv~i~~`~~j^t~~d~a~efb|~w~w~~hbntz~c~sz~_`"
    "~~p^~i~~~~^~~~~~~l^bpxxhh~{~~b^b`jn~_|~]rpn~a~~l~~r~~dbhb~ir~c~u~mpf~~r~~~~~k~g~~~~j~]rz~~d~~z~~~~~~~}~k";
static const char iq2_xs[] =                      /* IQ2_XS */
    "]^^^^^^^^^^^^`^^^^^^^`^b^^^`^`^f^^^^^^^^^^b^^^`^bb`^bn^^^`^bf^b`jdp^^^^^^^`^b^^^`^^`f^bn^^^`^bf^bfdx^bj`^xt^^^^^^b`b^bbhnd^^bnxb"
    "pnb~g`f^^^^^^^`^b^^^`^bd^^bn^^^`^bf^bnh^j^^`nn~_^^^`^bf^`^hbx^bn~qhr~k^b^lhpr`~i~~^~e^^^^^^^bf^bnnf^bnbl|p~]t`^bl^~qxf|hl~w`b^fr"
    "pj~uhth~a`^p^^^^^^^`^b^^^^^^b`b^bn^^^`^bf^bn`ld^b^j^~q^^^`^`^f^bnhl^bhb~gfdrb~i^bn`dd~]fpbl|~~h^^^`^bb`^bnx^b`j^~oz~m^^bfdnfndb~"
    "kb~c|rdhld~]xf^~~~gt^bnhdhp^~~~_jzlj~~fn`~g~~r~o~m~{~]d~]^^^`^bd^^bn^r^^^^`nfb~an~_^lb`^b^^jnlpz~ip~axblrf^rd~~z~]bdf`^bnjltpx~~"
    "dpp`vbb~{~a^~g~~t~c~a~w|~_^`^fd~i~ib~]`^`pxn~_~c~~~~hppf^`~kbb~q^~i^~al";
static const char iq2_s[] =                      /* IQ2_S */
    "]^^^^^^^^^^^^`^^^^^^^`^^^^^^^`^b``^^^^^^^^`^b^^^`^^^^`^`^b^^b^b^^^`^bd^^^^^`j```dd^^^^^^^`^^^^^^^^^^^^^^^b^^^^`^`^b^^^^^^^^^`^`^"
    "^^^^^^`^b^^^`^bf^^^^`j`^`^bf^bn^^^`^^^^``^^^^^^^^`^b`dj^^b^^^`d`^`^bfdnf^d`^f~]h^^^^^^^`^^`^^^`^^^^^^^`^^``^`^b^^^^^^^^^^^^`^^^^"
    "^^^`^b^^^`^l^`^`b^b`b^l^bn^^^`^^^^`^`^^^^^^^`^b^^^`^bf^^^^^^^`^b^^^`^bf^bn`^`^bf^bnv^^^^^`^`d^^^`^bf^t^^^`^bf^blrfbnj~c^^^`^^^^`"
    "`^^b^^dbd`j^^b^^bd^^b^bf^bndh`^`bt^l`^^^^`^`^b^^^`^bf^bn`^`^bf^bj`x^bnl~a`b^l^bvn^^b~urhxh^p^^^^^^^^^^^`^^^^^^^^^^^b^b`^`^b^^^`^"
    "^^^^^b^^^^^^^`^b^^^`^bf^b^^^bb`^`^bf^t^^^^^^^^^^^^`^^^^^^^`^b^^^`^bf^^^^^^^`^b^^^`^bd^^bn^^^`^bf^bnrb^`^^^^`^b^^^`^bhbn^^^`^bf^b"
    "njj^bn~q^^^`^^^^^^^`^^^^^^^`^b^^^`^l^^^^^^^`^b^^^`^bf^bn`^`^bf^bl^x^^^^^^^`^b^^^`^bf^bn^^^`^bf^bnx^bj`~q^^^`^bf^bdfx^bn~ql~ep`^^"
    "`^^^`^b`^`^bhbn^^^`^bf^bnljbnj|d`^`^bf^bnx^bndljl~}l^b~cphv~~n~gd^^^`^`^`b^b^^^`d`b^l^`^^^^`^b^^^`^l^bl^``^^l^b~i^^^^^^^`d^^^`^b"
    "f^bn^^^`^bf^bndp^bl^~q`b^l^b~ad^tr~or^hnd^`^^^^bb^^^`^bf^bn`b^l^bd~a^bn~m`^^^`^bf^bnjj^bn~e`d|l~]^bj`~o^~]`~~~cn```db^^b~abxr~]b"
    "h`^z`^l`^bn~]jbl~~~_~ol~m~ipx^f^`~_p";
static const char iq3_xxs[] =                      /* IQ3_XXS */
    "]^^a^`]^ceu^`^a^c`_^cghd^^ac^c^`fbj`b]^g~^opagh^`bol~nsp`^qjl^a^c^a^^g]t^cc^~j^a^cc~]b^jeilg`~^~c`noh~~gj|^c^a^`_e{^^_^ccw`]d^cb"
    "]^i]ipc`~g`}jtpfw~~_^gsxc^c^qiab^jeg^w^aiqlkn~xkobbhw{nq~cqpgj^h`~~gpk]lbmz{~`g}jq~~g_^j~mssdbls{j|d~dyg`~^ds~~i~gj~ml^jy|z~`~_b"
    "~~`}~`~l~cj~m^^]nl~gf~ewarijq}l{^n~~^";
static const char iq3_s[] =                      /* IQ3_S */
    "]]]_^]]]^^^]`ba^_^^^a^c__]]]^`]`__`^`ci`ab]`^]___`_`b_^^^i_db`_^c^_b`^i^`_g`^_bb_bkf^h^`ab`^kag_^jmkc^^h^`ai`p]]^`]^^^]^c_^j^_eb"
    "]^_^`ac_bc^jb^f_^]`bb_f_fc__]_bb]`ambg^a^i^c`^`qc_bc^k~b`_i^w^a^ch`mbd]^^^]^^^_^`]^c^^_^i]_^_^b_`__`_bct__f^ac^f`f_`^_`e^a^cbjgb"
    "e_c_`u_caei]gid^afx`p`i^gavc^^^_c^^a^_^fbd^^ca^ilf`^fbf^huc`a^`]e^`bjdba`cmb`ic^gaffioo|^i^g~^`bb`__cclfa^^cbabb`p^aa`fak_bha^a^"
    "c`~^^ng]uh^f}umptaggbub`bj`__hba^^ace|befabisa]kiahbb_hfh~_ho^~r|^j~r^^h^qllcyrnbgabdhak~pjkj_upqw~d^~p`_e^h^hblcgk^x_`b_cmut_jr"
    "`bat~el|s~b";

static void expand(uint16_t *entry, const char *differences, uint32_t base, uint32_t digits)
{
    int32_t number = -1;
    for (const char *c = differences; *c; c++) {
        number += *c == '~' ? 33 : *c - '\\';
        if (*c == '~') continue;
        uint32_t rest = (uint32_t)number, packed = 0;
        for (uint32_t k = 0; k < digits; k++, rest /= base) packed |= rest % base << 16 / digits * k;
        *entry++ = (uint16_t)packed;
    }
}
/* Before main(), because threads pack in parallel. */
__attribute__((constructor)) static void expand_all(void)
{
    expand(grid_iq1, iq1, 3, 8);
    expand(grid_iq2_xxs, iq2_xxs, 3, 8);
    expand(grid_iq2_xs, iq2_xs, 3, 8);
    expand(grid_iq2_s, iq2_s, 3, 8);
    expand(grid_iq3_xxs, iq3_xxs, 8, 4);
    expand(grid_iq3_s, iq3_s, 8, 4);
}
