/* SPDX-License-Identifier: Apache-2.0 */
/* 4096 functions, so that their symbols are longer than the headers that are compared first. */
#define ONE(name)         \
	int name(void);   \
	int name(void)    \
	{                 \
		return 0; \
	}
#define EIGHT(name)  \
	ONE(name##0) \
	ONE(name##1) \
	ONE(name##2) \
	ONE(name##3) \
	ONE(name##4) \
	ONE(name##5) \
	ONE(name##6) \
	ONE(name##7)
#define SIXTY_FOUR(name) \
	EIGHT(name##0)   \
	EIGHT(name##1)   \
	EIGHT(name##2)   \
	EIGHT(name##3)   \
	EIGHT(name##4)   \
	EIGHT(name##5)   \
	EIGHT(name##6)   \
	EIGHT(name##7)
#define MANY(name)          \
	SIXTY_FOUR(name##0) \
	SIXTY_FOUR(name##1) \
	SIXTY_FOUR(name##2) \
	SIXTY_FOUR(name##3) \
	SIXTY_FOUR(name##4) \
	SIXTY_FOUR(name##5) \
	SIXTY_FOUR(name##6) \
	SIXTY_FOUR(name##7)

MANY(sample_of_many_0)
MANY(sample_of_many_1)
MANY(sample_of_many_2)
MANY(sample_of_many_3)
MANY(sample_of_many_4)
MANY(sample_of_many_5)
MANY(sample_of_many_6)
MANY(sample_of_many_7)
