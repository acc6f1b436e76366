/* SPDX-License-Identifier: Apache-2.0 */
/* A program that needs a library with the name of a sanitizer's. */
void sanitizer_used(void);

int main(void)
{
	sanitizer_used();
	return 0;
}
