/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_REPORT_HTML_PAGE_TREND_H
#define FLMEM_REPORT_HTML_PAGE_TREND_H

/* Fits the measured growth as a line through the median of the points. */

#include "report/html/page.h"

struct flmem_page_trend {
	double mid_us, mid_bytes;
	double per_us, low_per_us, high_per_us; /* bytes */
};

/* Returns false if no growth was measured. */
bool flmem_page_trend_fit(const struct flmem_page_subject *subject,
			  struct flmem_page_trend *ret_trend);

#endif
