/* functions.wgsl -- functions of single values of a row.  Formulas: templates/gpu/functions.h, dialect.h.
 *
 * WGSL does not define the result of an overflow of f32, so no function here overflows.  Exponents are of -|x|, with powers of at most 1; x
 * is clamped, where the result no longer changes, before its square or cube could be too large. */

/* e^-|x|. */
fn exp_below_f32(x: f32) -> f32 { return exp2(-1.44269504 * min(abs(x), 200.0)); }
/* 1 / (1 + e^-x). */
fn sigmoid_f32(x: f32) -> f32 {
    let e = exp_below_f32(x);
    return select(e, 1.0, x >= 0.0) / (1.0 + e);
}
fn silu_f32(x: f32) -> f32 { return x * sigmoid_f32(x); }
/* 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) = x sigmoid(2 ...)  (Hendrycks & Gimpel 2016) */
fn gelu_f32(x: f32) -> f32 {
    let u = clamp(x, -16.0, 16.0);
    return x * sigmoid_f32(1.59576912 * (u + 0.044715 * u * u * u));
}
/* GELU as x times the normal distribution function; as vf_gelu_erf() of templates/cpu/activation_tmpl.c. */
fn gelu_erf_f32(x: f32) -> f32 {
    let u = min(abs(x), 20.0);
    let t = 1.0 / (1.0 + 0.282842712 * abs(x));
    var p = 0.0256732426;
    p = p * t - 0.0936627526;
    p = p * t + 0.0882139631;
    p = p * t - 0.00598078629;
    p = p * t + 0.072240668;
    p = p * t + 0.0838731429;
    p = p * t + 0.103972329;
    p = p * t + 0.112832314;
    p = p * t + 0.112837951;
    return max(x, 0.0) - abs(x) * (p * t * exp2(-0.72134752 * u * u));
}
/* ln(1 + e) for e from 0 to 1, as 2 artanh(e / (2 + e)): near 1 WGSL only limits the absolute error of log2. */
fn log1p_f32(e: f32) -> f32 {
    let s = e / (2.0 + e);
    let q = s * s;
    var p = 0.0769230769;
    p = p * q + 0.0909090909;
    p = p * q + 0.111111111;
    p = p * q + 0.142857143;
    p = p * q + 0.2;
    p = p * q + 0.333333333;
    return 2.0 * s + 2.0 * s * q * p;
}
fn softplus_f32(x: f32) -> f32 { return max(x, 0.0) + log1p_f32(exp_below_f32(x)); }
fn relu_sqr_f32(x: f32) -> f32 {
    let u = max(x, 0.0);
    return u * u;
}
fn tanh_f32(x: f32) -> f32 {
    let u = clamp(x, -16.0, 16.0);
    let square = u * u;
    let e = exp_below_f32(2.0 * u);
    let large = (1.0 - e) / (1.0 + e);
    return select(select(-large, large, u >= 0.0), u * (1.0 - square * (0.333333333 - square * 0.133333333)), square < 0.01);
}
fn softcap_f32(x: f32, cap: f32) -> f32 { return cap * tanh_f32(x * (1.0 / cap)); }
fn glu_oai_f32(gate: f32, up: f32, alpha: f32, limit: f32) -> f32 {
    let g = min(gate, limit);
    return g * sigmoid_f32(alpha * g) * (clamp(up, -limit, limit) + 1.0);
}
/* The factor of attention scores at a position, 1 up to n_ctx_orig. */
fn temperature_f32(position: u32, by: f32, n_ctx_orig: u32) -> f32 {
    return 1.0 + by * (0.69314718 * log2(f32(1u + position / n_ctx_orig)));
}
