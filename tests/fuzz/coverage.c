/* Tells libFuzzer which steps were taken by code that gcc compiled with -fsanitize-coverage=trace-pc. */
#include <stddef.h>
#include <stdint.h>

#define STEPS 4096

void __sanitizer_cov_8bit_counters_init(uint8_t *from, uint8_t *to);
void __sanitizer_cov_trace_pc(void);
void __sanitizer_cov_trace_cmpd(double one, double other);

static uint8_t taken[STEPS];
static uintptr_t before;

__attribute__((constructor, no_sanitize_coverage)) static void begin(void)
{
    __sanitizer_cov_8bit_counters_init(taken, taken + STEPS);
}

__attribute__((no_sanitize_coverage)) void __sanitizer_cov_trace_pc(void)
{
    uintptr_t here = (uintptr_t)__builtin_return_address(0);
    taken[(here ^ before >> 1) * 2654435761u % STEPS]++;
    before = here;
}

/* Gcc asks for it, libFuzzer has it not: comparisons of fractions are not led by. */
__attribute__((no_sanitize_coverage)) void __sanitizer_cov_trace_cmpd(double one, double other)
{
    (void)one, (void)other;
}
