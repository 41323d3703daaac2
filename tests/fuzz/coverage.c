/* Count for libFuzzer the steps of code that gcc compiled with -fsanitize-coverage=trace-pc. */
#include <stddef.h>
#include <stdint.h>

#define STEPS 4096

void __sanitizer_cov_8bit_counters_init(uint8_t *from, uint8_t *to);
void __sanitizer_cov_trace_pc(void);
void __sanitizer_cov_trace_cmpd(double first, double second);

static uint8_t counters[STEPS];
static uintptr_t previous;

__attribute__((constructor, no_sanitize_coverage)) static void begin(void)
{
    __sanitizer_cov_8bit_counters_init(counters, counters + STEPS);
}

__attribute__((no_sanitize_coverage)) void __sanitizer_cov_trace_pc(void)
{
    uintptr_t here = (uintptr_t)__builtin_return_address(0);
    counters[(here ^ previous >> 1) * 2654435761u % STEPS]++;
    previous = here;
}

/* gcc calls this function and libFuzzer does not define it: comparisons of fractions do not guide the search. */
__attribute__((no_sanitize_coverage)) void __sanitizer_cov_trace_cmpd(double first, double second)
{
    (void)first, (void)second;
}
